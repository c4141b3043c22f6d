package waitqueue

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
)

// A place in the document is kept, however long it waits behind another
// process, and whether or not its waiter is the poller.
func TestPlacesAreKept(t *testing.T) {
	simulated(t, relations.Fair(), 2, func(d *document, ps []*process) {
		d.waitTTL = 300 * time.Millisecond
		var all sync.WaitGroup
		ps[0].crowd(&all, 1, "write", time.Minute)
		time.Sleep(10 * time.Millisecond)
		ps[1].crowd(&all, 3, "read", 0)
		ps[1].crowd(&all, 1, "write", 0)
		all.Wait() // a lost place is a fault
	})
}

// The server refuses whatever it shows: nobody asks without a pause.
func TestNoBusyLoopWhereTheServerDisagrees(t *testing.T) {
	for _, rules := range []relations.Rules{relations.Exclusive(), relations.WritePreferring(), relations.Fair()} {
		simulated(t, rules, 2, func(d *document, ps []*process) {
			holder, _ := ps[1].acquire(context.Background(), ps[1].ask("write"))
			d.hides = true // before anybody else asks
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			defer cancel()
			var all sync.WaitGroup
			for range 5 {
				all.Go(func() { _ = ps[0].section(ctx, ps[0].ask(rules.Tags()[0]), 0) })
			}
			time.Sleep(10 * time.Second)
			d.sent()
			time.Sleep(9 * time.Second)
			if n := d.sent(); n > 9*5*4 {
				d.fault("%d commands in nine seconds", n)
			}
			all.Wait()
			ps[1].release("write", holder)
		})
	}
}

// The server's clock is set back, so that the holder's time, by what was seen
// before, ends long before its end. Nobody asks without a pause.
func TestAServersClockThatIsSetBack(t *testing.T) {
	simulated(t, relations.Exclusive(), 2, func(d *document, ps []*process) {
		d.ttl = 500 * time.Millisecond
		if _, err := ps[1].acquire(context.Background(), ps[1].ask("write")); err != nil { // and crashes
			d.fault("%v", err)
		}
		var all sync.WaitGroup
		ps[0].crowd(&all, 1, "write", 0)
		time.Sleep(50 * time.Millisecond)
		d.turn(-time.Minute)
		time.Sleep(600 * time.Millisecond) // until the end that was seen first
		d.sent()
		time.Sleep(500 * time.Millisecond)
		if n := d.sent(); n > 50 {
			d.fault("%d commands in half a second", n)
		}
		d.turn(time.Second)
		all.Wait()
		ps[1].Released(engine.Grant{Pin: pinOfOne})
	})
}

// When the poller gives up, another waiter polls.
func TestThePollerHasASuccessor(t *testing.T) {
	simulated(t, relations.Exclusive(), 2, func(d *document, ps []*process) {
		theirs, _ := ps[1].acquire(context.Background(), ps[1].ask("write"))
		ctx, cancel := context.WithCancel(context.Background())
		var all sync.WaitGroup
		all.Go(func() {
			if err := ps[0].section(ctx, ps[0].ask("write"), 0); !errors.Is(err, context.Canceled) {
				d.fault("cancelled: %v", err)
			}
		})
		synctest.Wait()
		ps[0].crowd(&all, 1, "write", 0)
		time.Sleep(time.Second)
		cancel()
		ps[1].release("write", theirs)
		begun := time.Now()
		all.Wait()
		if took := time.Since(begun); took > 2*time.Second {
			d.fault("it took %v", took)
		}
	})
}

// A waiter that a handoff can't serve asks.
func TestAReleaseWakesTheNext(t *testing.T) {
	simulated(t, relations.Exclusive(), 1, func(d *document, ps []*process) {
		holder, _ := ps[0].acquire(context.Background(), ps[0].ask("write"))
		r := ps[0].ask("write")
		r.Exact = false
		var all sync.WaitGroup
		all.Go(func() {
			if err := ps[0].section(context.Background(), r, 0); err != nil {
				d.fault("%v", err)
			}
		})
		time.Sleep(10 * time.Second)
		begun := time.Now()
		ps[0].release("write", holder)
		all.Wait()
		if took := time.Since(begun); took > 5*time.Millisecond {
			d.fault("it was woken after %v", took)
		}
	})
}

// Closing wakes all waiters, and a failure of one ends the waits of all.
func TestTheEndsOfAWait(t *testing.T) {
	broken := errors.New("no server")
	for name, c := range map[string]struct {
		end  func(p *process, w *Waiter)
		want error
	}{
		"closed":    {func(p *process, _ *Waiter) { close(p.closing) }, errClosed},
		"a failure": {func(p *process, w *Waiter) { p.Fail(w, broken) }, broken},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, relations.Exclusive(), 1, func(d *document, ps []*process) {
				p := ps[0]
				failed := p.Enter(keyOfOne, p.ask("write"), Known{})
				if step, err := p.Await(context.Background(), failed); step.Kind != Ask {
					d.fault("step %v, %v", step.Kind, err)
				}
				var all sync.WaitGroup
				for range 10 {
					all.Go(func() {
						if err := p.section(context.Background(), p.ask("write"), 0); !errors.Is(err, c.want) {
							d.fault("it ended with %v", err)
						}
					})
				}
				synctest.Wait()
				c.end(p, failed)
				all.Wait()
				p.Leave(failed)
			})
		})
	}
}

// A handoff of unknown outcome has its successor ask.
func TestAHandoffOfUnknownOutcome(t *testing.T) {
	simulated(t, relations.Exclusive(), 1, func(d *document, ps []*process) {
		p := ps[0]
		holder, _ := p.acquire(context.Background(), p.ask("write"))
		var all sync.WaitGroup
		p.crowd(&all, 2, "write", 0)
		time.Sleep(time.Second)
		p.mu.Lock()
		delete(p.holders, holder)
		p.mu.Unlock()
		next := p.Next(engine.Grant{Pin: pinOfOne, Tag: "write", ID: holder})
		if next == nil {
			d.fault("there is no successor")
			return
		}
		d.release(holder)
		p.HandedOver(holder, engine.Answer{})
		all.Wait()
	})
}

// A waiter that was granted the lock, and whose caller couldn't take it (the document
// can't be decoded), releases it before it leaves. It isn't its own successor.
func TestNoHandoffToOneself(t *testing.T) {
	simulated(t, relations.Exclusive(), 1, func(d *document, ps []*process) {
		p, own := ps[0], ps[0].ask("write")
		w := p.Enter(keyOfOne, own, Known{})
		p.Settle(w, Result{ID: own.ID, Image: d.acquire(own.Request).Image, Document: keyOfOne})
		grant := engine.Grant{Pin: pinOfOne, Tag: "write", ID: own.ID}
		if next := p.Next(grant); next != nil {
			d.fault("the waiter is handed its own lock: %+v", next)
		}
		d.release(own.ID)
		p.Released(grant)
		p.Leave(w)
	})
}

// The answer of a handoff comes back if its waiter has left before it, or leaves without
// it.
func TestAnAnswerThatIsNotTaken(t *testing.T) {
	for name, early := range map[string]bool{"left before it": true, "left without it": false} {
		t.Run(name, func(t *testing.T) {
			simulated(t, relations.Exclusive(), 1, func(d *document, ps []*process) {
				p, first, second := ps[0], ps[0].ask("write"), ps[0].ask("write")
				holder, w := p.Enter(keyOfOne, first, Known{}), p.Enter(keyOfOne, second, Known{})
				p.Settle(holder, Result{ID: first.ID, Held: first.ID, Image: d.acquire(first.Request).Image, Document: keyOfOne})
				p.Leave(holder)
				next := p.Next(engine.Grant{Pin: pinOfOne, Tag: "write", ID: first.ID})
				if early && p.Leave(w).Kind != 0 {
					d.fault("it has an answer before there is one")
				}
				late := p.HandedOver(first.ID, d.handoff(first.ID, *next))
				if early != (late == w) {
					d.fault("%v came too late", late)
				}
				if !early && p.Leave(w).Answer.Outcome != engine.Granted {
					d.fault("the answer got lost")
				}
				d.release(second.ID)
				p.Released(engine.Grant{Pin: pinOfOne, ID: second.ID})
			})
		})
	}
}
