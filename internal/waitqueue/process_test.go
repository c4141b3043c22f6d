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
)

// process is a Locker of the simulation: queues, and leases of one document.
type process struct {
	*Queues
	document *document
	closing  chan struct{}
	late     sync.WaitGroup // what is released for waiters that have left

	mu      sync.Mutex
	holders map[uuid.UUID]int // of the entries that are held here
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
			p := &process{document: d, closing: make(chan struct{}), holders: map[uuid.UUID]int{}}
			p.Queues = New(Config{Rules: rules, Now: func() time.Duration { return time.Hour + time.Since(begun) }, Closing: p.closing, Closed: errClosed, Leases: p})
			ps = append(ps, p)
		}
		body(d, ps)
		for i, p := range ps {
			p.late.Wait()
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

// Valid implements [Leases].
func (p *process) Valid(id uuid.UUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.holders[id] > 0
}

// Reserve implements [Leases].
func (p *process) Reserve(id uuid.UUID) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.holders[id] == 0 {
		return false
	}
	p.holders[id]++
	return true
}

func (p *process) ask(tag string) Request {
	return Request{Request: engine.Request{Tag: tag, ID: uuid.New()}, Exact: true, Begun: p.Now()}
}

// acquire waits for a lease as multilock does, and returns its entry.
func (p *process) acquire(ctx context.Context, r Request) (held uuid.UUID, err error) {
	r.Late = func(_ *Waiter, step Step) { p.late.Go(func() { p.forsake(r, step) }) }
	w := p.Enter(keyOfOne, r, Known{})
	var place Place
	defer func() {
		if held == uuid.Nil && place.taken() {
			p.document.release(r.ID)
			p.Removed(keyOfOne, r.ID)
		}
		if late := p.Leave(w); late.Kind != 0 {
			w.Late(w, late)
		}
	}()
	for {
		step, err := p.Await(ctx, w)
		switch {
		case err != nil:
			return uuid.Nil, err
		case step.Kind == Joined:
			return step.Entry, nil
		}
		got := step.Answer
		if got.Image == nil {
			got, held, err = p.enter(ctx, r, place)
		}
		if err != nil {
			return uuid.Nil, err
		}
		result := Result{ID: r.ID, Image: got.Image, Document: keyOfOne, Held: held}
		switch got.Outcome {
		case engine.Granted:
			result.Held = r.ID
			p.hold(r.ID)
		case engine.Waiting:
			own, _ := got.Image.Lock.Find(r.Tag, r.ID)
			place = Place{Seq: own.Seq, Confirm: p.document.waitTTL / 3}
		case engine.Lost: // at once again, under a new id
			p.document.fault("a place was lost")
			place = Place{}
		}
		result.Place = place
		p.Settle(w, result)
		if held = result.Held; held != uuid.Nil {
			return held, nil
		}
	}
}

// enter asks for an entry, or joins one after a check.
func (p *process) enter(ctx context.Context, r Request, place Place) (engine.Answer, uuid.UUID, error) {
	if place.taken() {
		return p.document.confirm(r.Request), uuid.Nil, nil
	}
	entry, check, err := p.Join(ctx, keyOfOne, r)
	switch {
	case err != nil:
		return engine.Answer{}, uuid.Nil, err
	case entry != uuid.Nil:
		return engine.Answer{}, entry, nil
	case check == nil:
		return p.document.acquire(r.Request), uuid.Nil, nil
	}
	joined := p.Reserve(check.ID)
	got := p.document.send(func() engine.Answer { return engine.Answer{Outcome: engine.Conflict, Image: p.document.image()} })
	check.End(got.Image)
	if !joined {
		return p.document.acquire(r.Request), uuid.Nil, nil
	}
	if blocking, _ := engine.InTheWay(p.Rules, got.Image, r.Tag, nil); len(blocking) > 0 {
		p.release(r.Tag, check.ID)
		return got, uuid.Nil, nil
	}
	return got, check.ID, nil
}

func (p *process) hold(id uuid.UUID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.holders[id]++
}

// forsake releases what was handed over to a waiter that had left.
func (p *process) forsake(r Request, step Step) {
	switch {
	case step.Kind == Joined:
		p.release(r.Tag, step.Entry)
	case step.Answer.Outcome == engine.Granted:
		p.hold(r.ID)
		p.release(r.Tag, r.ID)
	}
}

// release releases a lease: the last holder of an entry hands the lock over, or
// releases it to nobody.
func (p *process) release(tag string, id uuid.UUID) {
	p.mu.Lock()
	p.holders[id]--
	last := p.holders[id] == 0
	if last {
		delete(p.holders, id)
	}
	p.mu.Unlock()
	if !last {
		return
	}
	grant := engine.Grant{Pin: pinOfOne, Entry: engine.Entry{Tag: tag, ID: id}}
	next := p.Next(grant)
	if next == nil {
		p.document.release(id)
		p.Released(grant)
		return
	}
	got := p.document.handoff(id, *next)
	if w := p.HandedOver(id, got); w != nil {
		w.Late(w, Step{Kind: Answer, Answer: got})
	}
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
