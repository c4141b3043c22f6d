package waitqueue

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

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
		for _, shared := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", shared: ", shared), func(t *testing.T) {
				simulated(t, rules, 2, func(d *document, ps []*process) {
					ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
					defer cancel()
					var all sync.WaitGroup
					for _, p := range ps {
						for range 6 {
							all.Go(func() {
								for ctx.Err() == nil {
									r := p.ask("read")
									r.Shared = shared
									_ = p.section(ctx, r, 7*time.Millisecond)
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
