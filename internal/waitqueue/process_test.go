package waitqueue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// process is a Locker of the simulation: queues, and leases of one document.
type process struct {
	*Queues
	document *document
	closing  chan struct{}

	mu   sync.Mutex
	held map[uuid.UUID]bool // the entries that are held here
}

// inBubble runs a simulation in virtual time: n processes lock one document. In
// the end nobody waits, nothing is left in the document, and nothing is remembered.
func inBubble(t *testing.T, rules relations.Rules, n int, body func(d *document, ps []*process)) (d *document) {
	t.Helper()
	d = newDocument(rules)
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		var ps []*process
		for range n {
			p := &process{document: d, closing: make(chan struct{}), held: map[uuid.UUID]bool{}}
			p.Queues = New(Config{Rules: rules, Now: func() time.Duration { return time.Hour + time.Since(begun) }, Closing: p.closing, Closed: errClosed, Holds: p.holds})
			ps = append(ps, p)
		}
		body(d, ps)
		for i, p := range ps {
			if n := p.Documents(); n != 0 {
				d.fault("process %d remembers %d documents", i, n)
			}
		}
		if len(d.lock.Entries) > 0 {
			d.fault("left behind: %+v", d.lock.Entries)
		}
	})
	return d
}

// simulated is inBubble for a test that fails with the first fault.
func simulated(t *testing.T, rules relations.Rules, n int, body func(d *document, ps []*process)) {
	t.Helper()
	for _, fault := range inBubble(t, rules, n, body).faults {
		t.Error(fault)
	}
}

func (d *document) fault(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

// sent is how many commands were sent since the last call.
func (d *document) sent() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n := d.commands
	d.commands = 0
	return n
}

func (p *process) holds(_ bson.RawValue, id uuid.UUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held[id]
}

func (p *process) ask(tag string) Request {
	return Request{Request: engine.Request{Tag: tag, ID: uuid.New()}, Exact: true, Begun: p.Now()}
}

// acquire waits for a lease as multilock does, and returns its entry. What was granted to a
// caller who has left is released.
func (p *process) acquire(ctx context.Context, r Request) (held uuid.UUID, err error) {
	w := p.Enter(keyOfOne, r, Known{})
	var place Place
	defer p.Leave(w)
	defer func() {
		if held != uuid.Nil {
			return
		}
		time.Sleep(time.Millisecond) // others go on before it leaves
		if place.isTaken() {
			p.document.release(r.ID)
			p.Removed(keyOfOne, r.ID)
		}
	}()
	for {
		handed, err := p.Await(ctx, w)
		if err != nil {
			return uuid.Nil, err
		}
		got := handed
		if got == nil || got.Image == nil {
			got = p.enter(r, place)
		}
		result := Result{ID: r.ID, Image: got.Image, Document: keyOfOne}
		switch got.Outcome {
		case engine.Granted:
			result.Held = true
			p.hold(r.ID)
		case engine.Waiting:
			own, _ := got.Image.Lock.Find(r.Tag, r.ID)
			place = Place{Seq: own.Seq, Confirm: p.document.waitTTL / 3}
		case engine.Lost: // at once again, under a new id
			p.document.fault("a place was lost")
			place = Place{}
		}
		result.Place = place
		p.Report(w, result)
		switch {
		case result.Held && ctx.Err() != nil:
			place = Place{}
			p.release(r.Tag, r.ID)
			return uuid.Nil, ctx.Err()
		case result.Held:
			return r.ID, nil
		}
	}
}

// enter asks for an entry, or whether the one that waits is granted.
func (p *process) enter(r Request, place Place) *engine.Answer {
	got := engine.Answer{}
	if place.isTaken() {
		got = p.document.confirm(r.Request)
	} else {
		got = p.document.acquire(r.Request)
	}
	return &got
}

func (p *process) hold(id uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[id] = true
}

// release hands the lock over, or releases it to nobody.
func (p *process) release(tag string, id uuid.UUID) {
	p.mu.Lock()
	delete(p.held, id)
	p.mu.Unlock()
	grant := engine.Grant{Pin: pinOfOne, Entry: engine.Entry{Tag: tag, ID: id}}
	next := p.Next(grant)
	if next == nil {
		p.document.release(id)
		p.Released(grant)
		return
	}
	p.HandedOver(grant, p.document.handoff(id, *next), true)
}

// section is one critical section.
func (p *process) section(ctx context.Context, r Request, hold time.Duration) error {
	id, err := p.acquire(ctx, r)
	if err != nil {
		return err
	}
	time.Sleep(hold)
	p.release(r.Tag, id)
	return nil
}
