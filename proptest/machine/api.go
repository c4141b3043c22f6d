package machine

import (
	"cmp"
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/model"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// apiMachine tests through the public packages.
type apiMachine struct {
	*place
	wire    *wire
	clients []*client
	leases  []*lease
	tickets []*ticket
	told    told
}

// client is one locker, on a machine with clocks of its own.
type client struct {
	rules  model.Rules
	locker *multilock.Locker
	terms  model.Request // all but tag and id
	clocks fixture.Clock // the timers of leases read it, too
}

// The terms of the clients. They are long, because some limits are in real
// time: a renewal may take the rest of its lease.
const (
	apiTTL       = 60_000
	apiWaitTTL   = 20_000
	apiTolerance = 500
	apiLongest   = 120_000 // of all leases, by terms of their own
	patience     = 5000    // the rest of a lease must be longer than this, or over, before a call that takes real time
)

// apiRun is one run.
func (b *bench) apiRun(t *rapid.T) {
	m := &apiMachine{place: b.place(t, APIStored), wire: b.wire}
	rules := drawRules(t)
	m.clients = append(m.clients, m.newClient(t, rules), m.newClient(t, rules))
	if rapid.Bool().Draw(t, "a third client") {
		m.clients = append(m.clients, m.newClient(t, drawOther(t, rules)))
	}
	defer m.end()
	t.Repeat(map[string]func(*rapid.T){
		"":                   m.validity,
		"try":                m.try,
		"enqueue":            m.enqueue,
		"enqueue, too":       m.enqueue,
		"confirm":            m.confirm,
		"confirm, too":       m.confirm,
		"abandon":            m.abandon,
		"decided":            m.decided,
		"renew":              m.renew,
		"release":            m.release,
		"update":             m.updates,
		"update and release": m.updateAndRelease,
		"guard":              m.guard,
		"downgrade":          m.downgrade,
		"time":               m.pass,
		"clocks":             m.clocks,
		"outside writer":     m.outsideWrite,
		"hand over":          m.handOver,
		"hand over, too":     m.handOver,
		"hand over, again":   m.handOver,
		"hand over, anew":    m.handOver,
	})
	m.events(t)
}

// end ends every lease's validity, so that no lease keeps a timer.
func (m *apiMachine) end() {
	for _, c := range m.clients {
		c.turn(2 * apiLongest)
	}
	for _, l := range m.leases {
		_ = l.Err()
	}
}

func (m *apiMachine) newClient(t *rapid.T, rules model.Rules) *client {
	c := &client{rules: rules, terms: model.Request{
		Rules: rules, Owner: "somebody", TTL: apiTTL, WaitTTL: apiWaitTTL, Tolerance: apiTolerance,
		Upsert: rapid.IntRange(0, 3).Draw(t, "upsert") == 3,
	}}
	c.clocks.Set(time.Date(1999, time.December, 31, 23, 59, 59, 0, time.UTC)) // no clock is compared with another client's
	opts := []doclock.Option{
		doclock.TTL(ms(apiTTL)), doclock.WaitTTL(ms(apiWaitTTL)), doclock.ClockTolerance(ms(apiTolerance)),
		doclock.Owner(c.terms.Owner), doclock.AttemptTimeout(30 * time.Second), doclock.OnEvent(m.told.hear),
		func(cfg *engine.Config) error {
			cfg.Now = m.time
			cfg.Clock = c.reading
			return nil
		},
	}
	if c.terms.Upsert {
		opts = append(opts, doclock.Upsert())
	}
	var err error
	if c.locker, err = multilock.New(m.coll, rulesOf(rules), opts...); err != nil {
		t.Fatal(err)
	}
	t.Logf("a client with rules %v, upsert %v", rules, c.terms.Upsert)
	return c
}

// kind is the model's word for one of the library's errors.
func kind(err error) model.Outcome {
	switch {
	case err == nil:
		return ""
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		return "outcome unknown"
	case errors.Is(err, doclock.ErrConflict):
		return model.Conflict
	case errors.Is(err, doclock.ErrNotFound):
		return model.NotFound
	case errors.Is(err, doclock.ErrForeignLock):
		return model.ForeignLock
	case errors.Is(err, doclock.ErrLost):
		return model.Lost
	case errors.Is(err, doclock.ErrReleased):
		return "released before"
	default:
		return model.Outcome(err.Error())
	}
}

// outcome compares an error with the one that the model's outcome means.
func (m *apiMachine) outcome(t *rapid.T, command string, want model.Outcome, err error) {
	t.Helper()
	m.count.Checked(APIOutcomes, 1)
	got := kind(err)
	m.count.Seen("API: "+command+": "+string(cmp.Or(got, "done")), 1)
	if got != want {
		t.Fatalf("%s at %d: the error is %q (%v), the model's %q; document: %v", command, m.now-epoch, got, err, want, m.doc)
	}
}

func (m *apiMachine) try(t *rapid.T) {
	c, r, opts := m.asks(t)
	doc, want, _ := m.model.Acquire(m.doc, r, model.Try, m.now)
	t.Logf("try %s: the model says %s: %v", r.Tag, want, doc)
	sent := c.reading()
	got := bson.M{}
	l, err := c.locker.TryAcquire(t.Context(), m.filter(), string(r.Tag), append(opts, doclock.Into(&got))...)
	if want != model.Granted {
		if l != nil {
			t.Fatal("an error and a lease")
		}
		m.outcome(t, "try", want, err)
		m.settle(doc)
		m.conflict(t, err, r, nil)
		return
	}
	m.outcome(t, "try", "", err)
	m.into(t, got, doc)
	m.hold(t, c, r, l, doc, sent)
}

// asks draws the requester and its request, often with terms of its own.
func (m *apiMachine) asks(t *rapid.T) (*client, model.Request, []doclock.AcquireOption) {
	if len(m.leases)+len(m.tickets) >= 25 {
		t.Skip("enough")
	}
	c := pick(t, "client", m.clients)
	r := c.terms
	r.Tag, r.ID = drawTag(t, c.rules), model.ID(len(m.ids)+1)
	if rapid.Bool().Draw(t, "the Locker's terms") {
		return c, r, nil
	}
	r.TTL = rapid.SampledFrom([]int64{apiTTL, 30_000, apiLongest}).Draw(t, "own TTL")
	r.Owner = rapid.SampledFrom([]string{r.Owner, "a job", "$$e.id"}).Draw(t, "own owner")
	r.Hold = rapid.SampledFrom([]int64{0, 1, 5000, 90_000}).Draw(t, "hold at least")
	return c, r, []doclock.AcquireOption{doclock.LeaseTTL(ms(r.TTL)), doclock.OwnedBy(r.Owner), doclock.HoldAtLeast(ms(r.Hold))}
}

// into checks the document as of the grant.
func (m *apiMachine) into(t *rapid.T, got bson.M, want *model.Document) {
	t.Helper()
	if _, has := got["lock"]; has || got["_id"] != m.id || (len(want.Log) > 0) != (got["log"] != nil) {
		t.Fatalf("the document as of the grant is %v; the model's: %v", got, want)
	}
}

// conflict checks the blocking entries of a conflict, and the time until they
// expire.
func (m *apiMachine) conflict(t *rapid.T, err error, r model.Request, own *model.Entry) {
	t.Helper()
	var c *doclock.ConflictError
	if !errors.As(err, &c) {
		return
	}
	entries, until := inTheWay(m.doc, r.Rules, r.Tag, own, m.now)
	if c.Tag != string(r.Tag) || c.RetryAfter != ms(until-m.now) || len(c.Holders) != len(entries) {
		t.Fatalf("the conflict is %+v, and should be with %v until %d; document: %v", c, entries, until-epoch, m.doc)
	}
	for _, h := range c.Holders {
		e, there := entries[m.ids[h.ID]]
		if !there || h.Waiting == e.Held() || h.Remaining != ms(e.Expires-m.now) || h.Since.UnixMilli() != e.Since || h.Owner != e.Owner || h.AtLeast != ms(max(0, e.Until-m.now)) {
			t.Fatalf("the conflict is with %+v, and should be with %v; document: %v", h, entries, m.doc)
		}
	}
}

// inTheWay lists the live entries that block an arrival, or the waiting entry
// own, and the time at which enough of them have expired.
func inTheWay(d *model.Document, rules model.Rules, tag model.Tag, own *model.Entry, now int64) (map[model.ID]model.Entry, int64) {
	entries, until := map[model.ID]model.Entry{}, now
	for _, b := range d.Lock.Tags {
		r := rules.Relation(tag, b.Tag)
		if rules.Knows(b.Tag) && r.Kind == model.None {
			continue
		}
		var live []model.Entry
		for _, e := range b.Entries {
			if e.Live(now) && (own == nil || e.ID != own.ID && (e.Held() || e.Seq < own.Seq)) {
				live = append(live, e)
			}
		}
		if len(live) <= r.Allow {
			continue
		}
		for _, e := range live {
			entries[e.ID] = e
		}
		until = max(until, freeAt(live, r.Allow))
	}
	return entries, until
}

// freeAt is the first time at which no more than allow of the entries are live.
func freeAt(live []model.Entry, allow int) int64 {
	var first int64
	for _, e := range live {
		left := 0
		for _, other := range live {
			if other.Expires > e.Expires {
				left++
			}
		}
		if left <= allow && (first == 0 || e.Expires < first) {
			first = e.Expires
		}
	}
	return first
}
