package waitqueue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
)

// crowd starts n waiters of a tag, one after the other, and returns their ids.
func (p *process) crowd(all *sync.WaitGroup, n int, tag string, hold time.Duration) (ids []uuid.UUID) {
	for range n {
		r := p.ask(tag)
		ids = append(ids, r.ID)
		all.Go(func() {
			if err := p.section(context.Background(), r, hold); err != nil {
				p.document.fault("%v", err)
			}
		})
		synctest.Wait()
	}
	return ids
}

// A thousand waiters are served in the order in which they came, most of them
// by a handoff of one command; and the lock is released to others now and then.
func TestAThousandWaitersAreServedInOrder(t *testing.T) {
	const people = 1000
	simulated(t, relations.Exclusive(), 1, func(d *document, ps []*process) {
		holder, err := ps[0].acquire(context.Background(), ps[0].ask("write"))
		if err != nil {
			d.fault("%v", err)
		}
		var all sync.WaitGroup
		ids := ps[0].crowd(&all, people, "write", 0)
		if n := d.sent(); n > 4 {
			d.fault("%d commands of those who wait for their own process", n)
		}
		begun := time.Now()
		ps[0].release("write", holder)
		all.Wait()
		var served []uuid.UUID
		for _, e := range d.grants[1:] {
			served = append(served, e.ID)
		}
		if !slices.Equal(served, ids) {
			d.fault("served out of order")
		}
		n := d.sent()
		backs := n - people // each run that ends costs a release and an acquire
		if backs < 2 || backs > people/10 {
			d.fault("%d commands for %d sections", n, people)
		}
		if took := time.Since(begun); took > 3*time.Second {
			d.fault("it took %v", took)
		}
	})
}

// Two processes share a hot lock fairly, and a lone one keeps it.
func TestProcessesShareAHotLock(t *testing.T) {
	const span = 10 * time.Second
	for _, n := range []int{1, 2, 3} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			simulated(t, relations.Exclusive(), n, func(d *document, ps []*process) {
				ctx, cancel := context.WithTimeout(context.Background(), span)
				defer cancel()
				var all sync.WaitGroup
				var mu sync.Mutex
				sections, longest := make([]int, n), time.Duration(0)
				for i, p := range ps {
					for range 8 {
						all.Go(func() {
							for ctx.Err() == nil {
								begun := time.Now()
								if p.section(ctx, p.ask("write"), 0) == nil {
									mu.Lock()
									sections[i]++
									longest = max(longest, time.Since(begun))
									mu.Unlock()
								}
							}
						})
					}
				}
				all.Wait()
				total := 0
				for _, s := range sections {
					total += s
				}
				for i, s := range sections {
					if s < total/n/2 {
						d.fault("process %d had %d of %d sections: %v", i, s, total, sections)
					}
				}
				if least := int(span / time.Millisecond / 3); total < least {
					d.fault("%d sections, want %d", total, least)
				}
				if longest > 3*time.Second {
					d.fault("somebody waited for %v", longest)
				}
				t.Logf("sections %v, %d commands, the longest wait %v", sections, d.sent(), longest)
			})
		})
	}
}

// Nobody overtakes the first waiter as long as it waits only for those who are
// on their way to the server: where readers overlap there is always one.
func TestReadersThatOverlapLetAWriterIn(t *testing.T) {
	for name, rules := range map[string]relations.Rules{"write preferring": relations.WritePreferring(), "fair": relations.Fair()} {
		t.Run(name, func(t *testing.T) {
			simulated(t, rules, 2, func(d *document, ps []*process) {
				ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
				defer cancel()
				var all sync.WaitGroup
				for _, p := range ps {
					for range 6 {
						all.Go(func() {
							for ctx.Err() == nil {
								_ = p.section(ctx, p.ask("read"), 7*time.Millisecond)
							}
						})
					}
				}
				time.Sleep(time.Second)
				for range 5 {
					begun := time.Now()
					if err := ps[0].section(ctx, ps[0].ask("write"), 0); err != nil {
						d.fault("a writer: %v", err)
					}
					if took := time.Since(begun); took > time.Second {
						d.fault("a writer waited for %v", took)
					}
					time.Sleep(50 * time.Millisecond)
				}
				cancel()
				all.Wait()
			})
		})
	}
}

// unrelated are two locks that have nothing to do with each other.
var unrelated = relations.Rules{"a": {"a": {Kind: relations.Cooperative}}, "b": {"b": {Kind: relations.Cooperative}}}

// A release of another process is noticed, whatever else this process holds,
// and whoever else waits: the poller's pause is the shortest among the first
// waiters of all tags.
func TestTheOthersReleaseIsNoticed(t *testing.T) {
	for name, c := range map[string]struct {
		rules                        relations.Rules
		ours, theirs, before, waiter string
	}{
		"beside an own holder that is tolerated":   {relations.Semaphore(2), "slot", "slot", "", "slot"},
		"behind who waits for an own holder":       {relations.MultiGranularity(), "IS", "IX", "X", "S"},
		"behind who waits for another, unrelated":  {unrelated, "a", "b", "a", "b"},
		"before who waits for another, unrelated":  {unrelated, "b", "a", "", "a"},
		"where nothing else is held, as a control": {unrelated, "", "b", "", "b"},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, c.rules, 2, func(d *document, ps []*process) {
				here, there := ps[0], ps[1]
				ctx, cancel := context.WithCancel(context.Background())
				var all sync.WaitGroup
				var ours uuid.UUID
				if c.ours != "" {
					ours, _ = here.acquire(ctx, here.ask(c.ours))
				}
				theirs, _ := there.acquire(ctx, there.ask(c.theirs))
				if c.before != "" {
					all.Go(func() { _ = here.section(ctx, here.ask(c.before), 0) })
					time.Sleep(10 * time.Millisecond)
				}
				got := time.Duration(0)
				begun := time.Now()
				all.Go(func() {
					if here.section(ctx, here.ask(c.waiter), 0) == nil {
						got = time.Since(begun)
					}
				})
				time.Sleep(4 * time.Second)
				d.sent()
				time.Sleep(4 * time.Second)
				if n := d.sent(); n > 12 {
					d.fault("%d commands in four seconds of a long wait", n)
				}
				there.release(c.theirs, theirs)
				time.Sleep(4 * time.Second)
				cancel()
				all.Wait()
				if got == 0 {
					d.fault("nobody has noticed")
				}
				if c.ours != "" {
					here.release(c.ours, ours)
				}
			})
		})
	}
}

// A waiter with a place asks often as soon as no entry of its own process is in its way,
// also where another one polls: its place keeps the other processes out.
func TestAPlaceIsPolledBesideThePoller(t *testing.T) {
	rules := relations.Rules{
		"normal": {"normal": {Kind: relations.Cooperative}, "urgent": {Kind: relations.Cooperative}},
		"urgent": {"normal": {Kind: relations.Assertive}, "urgent": {Kind: relations.Assertive}},
	}
	simulated(t, rules, 2, func(d *document, ps []*process) {
		here, there := ps[0], ps[1]
		ctx, cancel := context.WithCancel(context.Background())
		held, _ := here.acquire(ctx, here.ask("urgent"))
		var all sync.WaitGroup
		poller := here.ask("normal")
		poller.Begun -= time.Hour // so it asks seldom
		all.Go(func() { _ = here.section(ctx, poller, 0) })
		time.Sleep(10 * time.Millisecond)
		all.Go(func() { _ = there.section(ctx, there.ask("urgent"), 20*time.Millisecond) })
		time.Sleep(10 * time.Millisecond)
		var got time.Time
		all.Go(func() {
			if here.section(ctx, here.ask("urgent"), 0) == nil {
				got = time.Now()
			}
		})
		time.Sleep(100 * time.Millisecond)
		begun := time.Now()
		here.release("urgent", held)
		time.Sleep(10 * time.Second)
		cancel()
		all.Wait()
		if took := got.Sub(begun); took < 0 || took > 200*time.Millisecond {
			d.fault("it has taken %v", took)
		}
	})
}

// As long as its own process has the lock, nobody asks the server.
func TestNobodyAsksForWhatItsProcessHolds(t *testing.T) {
	for name, c := range map[string]struct {
		rules   relations.Rules
		tag     string
		holders int
	}{
		"exclusive": {relations.Exclusive(), "write", 1},
		"semaphore": {relations.Semaphore(2), "slot", 2},
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, c.rules, 1, func(d *document, ps []*process) {
				d.waitTTL = time.Hour
				var all sync.WaitGroup
				ps[0].crowd(&all, c.holders, c.tag, time.Minute)
				time.Sleep(time.Second)
				ps[0].crowd(&all, 4, c.tag, 0)
				time.Sleep(time.Second)
				d.sent()
				time.Sleep(50 * time.Second)
				if n := d.sent(); n != 0 {
					d.fault("%d commands", n)
				}
				all.Wait()
			})
		})
	}
}

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

// The server refuses whatever it shows: nobody asks without a pause, be it the poller or another waiter.
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

// A waiter that was granted the lock, and whose caller couldn't take it (the document
// can't be decoded), releases it before it leaves. It isn't its own successor.
func TestNoHandoffToOneself(t *testing.T) {
	simulated(t, relations.Exclusive(), 1, func(d *document, ps []*process) {
		p, own := ps[0], ps[0].ask("write")
		w := p.Enter(keyOfOne, own, Known{})
		p.Report(w, Result{ID: own.ID, Image: d.acquire(own.Request).Image, Document: keyOfOne})
		grant := engine.Grant{Pin: pinOfOne, Entry: engine.Entry{Tag: "write", ID: own.ID}}
		if next := p.Next(grant); next != nil {
			d.fault("the waiter is handed its own lock: %+v", next)
		}
		d.release(own.ID)
		p.Released(grant)
		p.Leave(w)
	})
}

// A waiter whose wait has ended while it was promised the lock gets the answer, and not the
// end of its wait: nobody else knows of its entry.
func TestAPromisedWaiterGetsTheAnswer(t *testing.T) {
	behindAHolder(t, func(ctx context.Context, p *process, w *Waiter, grant engine.Grant, end func()) {
		d, next := p.document, p.Next(grant)
		var all sync.WaitGroup
		all.Go(func() {
			handed, err := p.Await(ctx, w)
			if err != nil || handed == nil || handed.Outcome != engine.Granted {
				d.fault("%v, %v", handed, err)
			}
		})
		synctest.Wait()
		end()
		synctest.Wait()
		p.HandedOver(grant, d.handoff(grant.ID, *next), true)
		all.Wait()
		p.Leave(w)
		d.release(w.ID)
		p.Released(engine.Grant{Pin: pinOfOne, Entry: engine.Entry{ID: w.ID}})
	})
}

// A waiter whose wait has ended is promised no lock before it leaves: nobody else would know of
// its entry.
func TestAWaiterThatIsAboutToLeaveIsPromisedNothing(t *testing.T) {
	behindAHolder(t, func(ctx context.Context, p *process, w *Waiter, grant engine.Grant, end func()) {
		d := p.document
		end()
		if _, err := p.Await(ctx, w); err == nil {
			d.fault("the wait has not ended")
		}
		next := p.Next(grant) // another goroutine's release, before Leave
		p.Leave(w)
		if next == nil {
			d.release(grant.ID)
			p.Released(grant)
			return
		}
		d.fault("who has left is handed the lock")
		p.HandedOver(grant, d.handoff(grant.ID, *next), true)
	})
}

// behindAHolder runs a test of a waiter behind a holder of its process, for each way in which
// its wait may end. The grant is the holder's.
func behindAHolder(t *testing.T, test func(ctx context.Context, p *process, w *Waiter, grant engine.Grant, end func())) {
	t.Helper()
	for name, end := range map[string]func(p *process, cancel func()){
		"its caller leaves": func(_ *process, cancel func()) { cancel() },
		"closed":            func(p *process, _ func()) { close(p.closing) },
	} {
		t.Run(name, func(t *testing.T) {
			simulated(t, relations.Exclusive(), 1, func(d *document, ps []*process) {
				ctx, cancel := context.WithCancel(context.Background())
				defer cancel()
				p, first, second := ps[0], ps[0].ask("write"), ps[0].ask("write")
				holder, w := p.Enter(keyOfOne, first, Known{}), p.Enter(keyOfOne, second, Known{})
				p.Report(holder, Result{ID: first.ID, Held: true, Image: d.acquire(first.Request).Image, Document: keyOfOne})
				p.Leave(holder)
				test(ctx, p, w, engine.Grant{Pin: pinOfOne, Entry: engine.Entry{Tag: "write", ID: first.ID}}, func() { end(p, cancel) })
			})
		})
	}
}

// A tag that the others respect is next, however many of them wait in its process: it has its
// place in the document before its turn among all has come.
func TestAnUrgentTagIsNext(t *testing.T) {
	const hold = 500 * time.Millisecond
	cooperative, assertive := relations.Relation{Kind: relations.Cooperative}, relations.Relation{Kind: relations.Assertive}
	rules := relations.Rules{"normal": {"normal": cooperative, "urgent": cooperative}, "urgent": {"normal": assertive, "urgent": assertive}}
	for _, normals := range []int{5, 80} {
		t.Run(fmt.Sprint(normals), func(t *testing.T) {
			simulated(t, rules, 1, func(d *document, ps []*process) {
				ctx, cancel := context.WithCancel(context.Background())
				var all sync.WaitGroup
				for range normals {
					all.Go(func() {
						for ctx.Err() == nil {
							_ = ps[0].section(ctx, ps[0].ask("normal"), hold)
						}
					})
				}
				time.Sleep(10 * time.Second)
				for range 5 {
					begun := time.Now()
					if err := ps[0].section(ctx, ps[0].ask("urgent"), 0); err != nil {
						d.fault("%v", err)
					}
					if took := time.Since(begun); took > 2*hold {
						d.fault("it waited for %v", took)
					}
					time.Sleep(3 * time.Second)
				}
				cancel()
				all.Wait()
			})
		})
	}
}

// Readers that wait next to each other hold together, also behind writers who wait for them.
func TestReadersHoldTogetherBetweenWriters(t *testing.T) {
	simulated(t, relations.Fair(), 1, func(d *document, ps []*process) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex
		sections := map[string]int{}
		for i := range 12 {
			tag := "read"
			if i%4 == 0 {
				tag = "write"
			}
			all.Go(func() {
				for ctx.Err() == nil {
					if ps[0].section(ctx, ps[0].ask(tag), 5*time.Millisecond) == nil {
						mu.Lock()
						sections[tag]++
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		if sections["read"] < 2*sections["write"] || sections["write"] < 200 {
			d.fault("%v", sections)
		}
		t.Logf("%v, %d commands", sections, d.sent())
	})
}
