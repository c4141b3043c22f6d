package machine

import (
	"bytes"
	"context"
	"encoding/hex"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/model"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"pgregory.net/rapid"
)

// SeenHandedOver counts the releases that granted the lock to a waiter in the
// same command.
const SeenHandedOver = "API: locks handed over"

// wire records the library's commands and their answers.
type wire struct {
	mu   sync.Mutex
	sent []*message
}

// message is one command, or the two of a handoff. Sent and answered count
// events.
type message struct {
	commands       []history.Command
	request        int64
	sent, answered int
}

func (w *wire) monitor() *event.CommandMonitor {
	events := 0
	return &event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			commands := history.ReadCommand(bytes.Clone(e.Command))
			if commands == nil {
				return
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			events++
			w.sent = append(w.sent, &message{commands: commands, request: e.RequestID, sent: events})
		},
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			w.mu.Lock()
			defer w.mu.Unlock()
			for _, m := range w.sent {
				if m.request == e.RequestID {
					events++
					m.answered = events
				}
			}
		},
	}
}

// take returns the messages since the last take.
func (w *wire) take() []*message {
	w.mu.Lock()
	defer w.mu.Unlock()
	sent := w.sent
	w.sent = nil
	return sent
}

func (w *wire) answered() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.sent) > 0 && !slices.ContainsFunc(w.sent, func(m *message) bool { return m.answered == 0 })
}

// handOver lets a waiter wait for a lease in a goroutine, and releases the
// lease. Timing decides whether the lease is handed over or the waiter has to
// ask. The test compares the document, the waiter's lease and its validity
// after the commands that were sent.
func (m *apiMachine) handOver(t *rapid.T) {
	if !m.alone || len(m.leases) >= 25 {
		t.Skip("an outside writer keeps a wait queue waiting for what is not there")
	}
	l, r := m.contended(t)
	c := l.client
	m.wire.take()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	type result struct {
		lease *doclock.Lease
		err   error
	}
	into := bson.M{}
	waiter := make(chan result, 1)
	go func() {
		lease, err := c.locker.Acquire(ctx, m.filter(), string(r.Tag), doclock.Into(&into))
		waiter <- result{lease, err}
	}()
	// It asks, unless a waiter before it has told it whom it waits for.
	for end := time.Now().Add(5 * time.Millisecond); time.Now().Before(end) && !m.wire.answered(); time.Sleep(100 * time.Microsecond) {
	}
	inherited, sent := l.from, c.reading()
	var label model.Update
	var err error
	left := m.now
	if rapid.Bool().Draw(t, "with an update") {
		var update any
		label, update = m.nextUpdate(t)
		left = m.leaves(l.known, update)
		err = l.UpdateAndRelease(t.Context(), update)
	} else {
		err = l.Release(t.Context())
	}
	m.leaving = l.known.ID
	l.finish("released before")
	l.released, l.verdict = true, ""
	m.outcome(t, "hand over", "", err)
	got := <-waiter
	m.outcome(t, "wait", "", got.err)
	if m.named(got.lease.ID()) != r.ID {
		t.Fatalf("the waiter's id is not new")
	}

	messages := m.wire.take()
	messages = slices.DeleteFunc(messages, func(msg *message) bool { // the clean-up of an earlier run
		return msg.commands[0].Document != m.id
	})
	ends := m.replay(l, r, finalWrite{label, left}, messages)
	if len(messages) < 3 && slices.ContainsFunc(messages, func(msg *message) bool { return len(msg.commands) == 2 }) {
		m.count.Seen(SeenHandedOver, 1)
		if slices.ContainsFunc(ends, func(e end) bool { return e.inherits }) {
			m.count.Seen("API: handed over by compare-and-set", 1)
		}
	}
	var docs []*model.Document
	for _, e := range ends {
		docs = append(docs, e.doc)
	}
	for _, msg := range messages {
		t.Logf("sent: %+v", msg.commands)
	}
	if len(docs) == 0 {
		t.Fatal("no order of what was sent is possible")
	}
	m.settle(docs...)
	for _, e := range ends {
		if model.Same(e.doc, m.doc) && e.inherits {
			sent = inherited
		}
	}
	m.into(t, into, m.doc)
	m.hold(t, c, r, got.lease, m.doc, sent)
}

// contended draws a lease that is in the document, and a request of the same
// locker that only this lease blocks.
func (m *apiMachine) contended(t *rapid.T) (*lease, model.Request) {
	type pair struct {
		l *lease
		r model.Request
	}
	var pairs []pair
	for _, l := range m.leases {
		e, there := m.doc.Find(l.known.Tag, l.known.ID)
		if l.released || l.look() != "" || l.left() < ms(patience) || !there || e.Fence != l.known.Fence {
			continue
		}
		for _, tag := range l.client.rules.Tags() {
			r := l.client.terms
			r.Tag, r.ID = tag, model.ID(len(m.ids)+1)
			released, _, _ := m.model.Release(m.doc, l.known, m.now)
			_, now, _ := m.model.Acquire(m.doc, r, model.Queue, m.now)
			_, then, _ := m.model.Acquire(released, r, model.Queue, m.now)
			// The waiter waits for its own locker's leases as long as they may
			// last, even if the server has dropped them.
			alone := !slices.ContainsFunc(m.leases, func(o *lease) bool {
				return o != l && o.client == l.client && !o.released && l.client.rules.Relation(tag, o.known.Tag).Kind != model.None
			})
			if now != model.Granted && then == model.Granted && alone {
				pairs = append(pairs, pair{l, r})
			}
		}
	}
	if len(pairs) == 0 {
		t.Skip("no request would wait for a lease alone")
	}
	p := pick(t, "who waits for which lease", pairs)
	t.Logf("%s waits for %d under %s", p.r.Tag, p.l.known.ID, p.l.known.Tag)
	return p.l, p.r
}

// finalWrite is the lease's last write, and the time as of which the model is asked for it.
type finalWrite struct {
	write model.Update
	at    int64
}

// end is a possible result of a sequence of commands in the document.
type end struct {
	doc      *model.Document
	inherits bool // a compare-and-set was applied
}

// executed marks a message in the key of a state.
const executed = '.'

// replay lets the model execute the messages, in each order in which they may
// have been executed. It goes on from each state once: a waiter that asked often
// has many orders, and few states.
func (m *apiMachine) replay(l *lease, r model.Request, w finalWrite, messages []*message) []end {
	late := func(msg *message, left string) bool { // one that is left was answered before it was sent
		for i, o := range messages {
			if left[i] != executed && o.answered != 0 && o.answered < msg.sent {
				return true
			}
		}
		return false
	}
	states := map[string][]end{strings.Repeat("?", len(messages)): {{doc: m.doc}}}
	for range messages {
		after := map[string][]end{}
		for left, ends := range states {
			for i, msg := range messages {
				if left[i] == executed || late(msg, left) {
					continue
				}
				rest := left[:i] + string(executed) + left[i+1:]
				for _, before := range ends {
					for _, e := range m.execute(l, r, w, before, msg.commands) {
						after[rest] = e.among(after[rest])
					}
				}
			}
		}
		states = after
	}
	return states[strings.Repeat(string(executed), len(messages))]
}

// among adds the end to others, unless it is one of them.
func (e end) among(others []end) []end {
	if slices.ContainsFunc(others, func(o end) bool { return o.inherits == e.inherits && model.Same(o.doc, e.doc) }) {
		return others
	}
	return append(others, e)
}

// execute executes one message. A confirm has several ends, see open.go.
func (m *apiMachine) execute(l *lease, r model.Request, w finalWrite, e end, commands []history.Command) []end {
	first := commands[0]
	own, waits := m.known(first.ID) == r.ID, false
	var doc *model.Document
	outcome := model.Outcome("")
	switch {
	case len(commands) == 2 && commands[1].Inherits:
		doc, outcome, _ = m.model.CompareAndSet(e.doc, l.known, w.write, r, l.alone, m.now)
		e.inherits = e.inherits || outcome == model.Granted
	case len(commands) == 2:
		waits = commands[1].Kind == history.CommandConfirm
		successor := model.Successor{Request: r, Waiting: waits}
		if first.Kind == history.CommandWriteAndRelease {
			doc, outcome, _ = m.model.WriteAndHandOff(e.doc, l.known, w.write, successor, m.now)
		} else {
			doc, outcome, _ = m.model.Handoff(e.doc, l.known, successor, m.now)
		}
		waits = waits && outcome != model.NotApplied
	case first.Kind == history.CommandAcquire && own:
		doc, _, _ = m.model.Acquire(e.doc, r, model.Queue, m.now)
	case first.Kind == history.CommandConfirm && own:
		doc, _, _ = m.model.Confirm(e.doc, r, m.now)
		waits = true
	case first.Kind == history.CommandRelease && m.known(first.ID) != l.known.ID: // the clean-up of an earlier waiter
		doc, _, _ = m.model.Release(e.doc, model.Lease{Tag: model.Tag(first.Tag), ID: m.known(first.ID)}, m.now)
	case first.Kind == history.CommandRelease && !own:
		doc, _, _ = m.model.Release(e.doc, l.known, m.now)
	case first.Kind == history.CommandWriteAndRelease && !own:
		doc, _, _ = m.model.WriteAndRelease(e.doc, l.known, w.write, w.at)
	default:
		return nil // this command should not have been sent
	}
	if !waits {
		return []end{{doc, e.inherits}}
	}
	var ends []end
	for _, d := range afterConfirm(doc, r.Tag, r.ID, m.now) {
		ends = append(ends, end{d, e.inherits})
	}
	return ends
}

// known is the model's number of an id on the wire.
func (m *apiMachine) known(id string) model.ID {
	data, err := hex.DecodeString(id)
	if err != nil || len(data) != len(uuid.UUID{}) {
		return 0
	}
	return m.ids[uuid.UUID(data)]
}
