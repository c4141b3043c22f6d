package machine

import (
	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/model"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// ticket is a ticket that waits, or has waited.
type ticket struct {
	*multilock.Ticket
	client *client
	terms  model.Request
	into   bson.M
	lease  *lease        // once granted
	over   model.Outcome // why there is no lease
}

func (m *apiMachine) enqueue(t *rapid.T) {
	c, r, opts := m.asks(t)
	doc, want, _ := m.model.Acquire(m.doc, r, model.Queue, m.now)
	if want == model.Waits {
		m.count.Seen("API: enqueue: waiting", 1)
	}
	t.Logf("enqueue %s: the model says %s: %v", r.Tag, want, doc)
	sent := c.reading()
	w := &ticket{client: c, terms: r, into: bson.M{}}
	filter := m.filter()
	got, err := c.locker.Enqueue(t.Context(), filter, string(r.Tag), append(opts, doclock.Into(&w.into))...)
	reuse(filter)
	if want != model.Granted && want != model.Waits {
		if got != nil {
			t.Fatal("an error and a ticket")
		}
		m.outcome(t, "enqueue", want, err)
		m.settle(doc)
		m.conflict(t, err, r, nil)
		return
	}
	m.outcome(t, "enqueue", "", err)
	w.Ticket = got
	w.terms.ID = m.named(got.ID())
	m.tickets = append(m.tickets, w)
	if got.Granted() != (want == model.Granted) {
		t.Fatalf("the ticket's Granted is %v, the model says %s", got.Granted(), want)
	}
	if want == model.Waits {
		m.settle(doc)
		return
	}
	l, err := got.Confirm(t.Context()) // sends nothing
	m.outcome(t, "enqueue", "", err)
	m.into(t, w.into, doc)
	w.lease = m.hold(t, c, r, l, doc, sent)
}

// ticket draws a ticket that is decided, or one that is not.
func (m *apiMachine) ticket(t *rapid.T, decided bool) *ticket {
	var some []*ticket
	for _, w := range m.tickets {
		if decided == (w.lease != nil || w.over != "") {
			some = append(some, w)
		}
	}
	if len(some) == 0 {
		t.Skip("no such ticket")
	}
	return pick(t, "ticket", some)
}

// decided tests decided tickets: no command is sent.
func (m *apiMachine) decided(t *rapid.T) {
	w := m.ticket(t, true)
	l, err := w.Confirm(t.Context())
	m.outcome(t, "confirm of a decided ticket", w.over, err)
	if w.lease != nil && l != w.lease.Lease {
		t.Fatal("another lease than before")
	}
	m.outcome(t, "cancel of a decided ticket", "", w.Cancel(t.Context()))
	m.settle(m.doc)
}

func (m *apiMachine) confirm(t *rapid.T) {
	w := m.ticket(t, false)
	doc, want, _ := m.model.Confirm(m.doc, w.terms, m.now)
	t.Logf("confirm %d: the model says %s: %v", w.terms.ID, want, doc)
	own, _ := m.doc.Find(w.terms.Tag, w.terms.ID)
	sent := w.client.reading()
	l, err := w.Confirm(t.Context())
	may := []*model.Document{doc}
	if doc != nil {
		may = afterConfirm(doc, w.terms.Tag, w.terms.ID, m.now)
	}
	switch want {
	case model.Granted:
		m.outcome(t, "confirm", "", err)
		m.into(t, w.into, doc)
		w.lease = m.hold(t, w.client, w.terms, l, may[0], sent, may[1:]...)
	case model.Waits:
		m.outcome(t, "confirm", model.Conflict, err)
		m.settle(may...)
		m.conflict(t, err, w.terms, &own)
	default:
		if want == model.Lost {
			w.over = want
		}
		m.outcome(t, "confirm", want, err)
		m.settle(may...)
	}
}

func (m *apiMachine) abandon(t *rapid.T) {
	w := m.ticket(t, false)
	doc, _, _ := m.model.Release(m.doc, model.Lease{Tag: w.terms.Tag, ID: w.terms.ID}, m.now)
	w.over = "released before"
	t.Logf("cancel %d: %v", w.terms.ID, doc)
	m.outcome(t, "abandon", "", w.Cancel(t.Context()))
	m.settle(doc)
}
