package waitqueue

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// caller is one Acquire of a random plan.
type caller struct {
	Process  int
	Tag      string
	At, Hold time.Duration
	Cancel   time.Duration // after At; 0 is never
	Exact    bool
	Document bool
}

// Whatever callers come, hold, give up and leave, in up to three processes, perhaps
// beside an entry whose holder has died, and perhaps while the server's clock is set
// back: everybody else is granted, soon after those in its way have left, in a bounded
// number of commands; and nothing is left behind.
func TestRandomCallersAreServed(t *testing.T) {
	tables := map[string]relations.Rules{
		"Exclusive": relations.Exclusive(), "ReadPreferring": relations.ReadPreferring(), "WritePreferring": relations.WritePreferring(),
		"Fair": relations.Fair(), "Semaphore": relations.Semaphore(2), "MultiGranularity": relations.MultiGranularity(), "unrelated": unrelated,
	}
	names := []string{"Exclusive", "ReadPreferring", "WritePreferring", "Fair", "Semaphore", "MultiGranularity", "unrelated"}
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.SampledFrom(names).Draw(rt, "rules")
		rules := tables[name]
		processes := rapid.IntRange(1, 3).Draw(rt, "processes")
		micro := func(most int, name string) time.Duration {
			return time.Duration(rapid.IntRange(0, most).Draw(rt, name)) * 100 * time.Microsecond
		}
		latency := micro(30, "latency")
		var plan []caller
		for range rapid.IntRange(1, 25).Draw(rt, "callers") {
			c := caller{
				Process: rapid.IntRange(0, processes-1).Draw(rt, "process"),
				Tag:     rapid.SampledFrom(rules.Tags()).Draw(rt, "tag"),
				At:      micro(300, "at"), Hold: micro(200, "hold"), Exact: rapid.IntRange(0, 4).Draw(rt, "exact") > 0,
			}
			if rapid.IntRange(0, 3).Draw(rt, "gives up") == 0 {
				c.Cancel = micro(300, "after") + 1
			}
			c.Document = rapid.IntRange(0, 3).Draw(rt, "document") == 0
			plan = append(plan, c)
		}
		dead := engine.Entry{Tag: rapid.SampledFrom(rules.Tags()).Draw(rt, "dead"), ID: uuid.New(), Seq: 1, Fence: 1}
		life := micro(500, "its life") // 0 is nobody
		var back time.Duration
		if rapid.IntRange(0, 3).Draw(rt, "set back") == 0 {
			back = time.Minute
		}
		at := micro(500, "back at")
		d := inBubble(t, rules, processes, func(d *document, ps []*process) {
			d.latency = latency
			if dead.Expires = d.now().Add(life); life > 0 {
				d.lock = engine.Lock{Fence: 1, Entries: []engine.Entry{dead}}
			}
			time.AfterFunc(at, func() { d.turn(-back) })
			served(d, ps, plan, life+back)
			time.Sleep(life + back)
			d.release(dead.ID)
		})
		for _, fault := range d.faults {
			rt.Error(fault)
		}
	})
}

// served runs a plan, and judges how long it takes.
func served(d *document, ps []*process, plan []caller, dead time.Duration) {
	var all sync.WaitGroup
	least := dead // in which all could be served one after the other
	for _, c := range plan {
		least = max(least, dead+c.At)
	}
	for _, c := range plan {
		least += c.Hold + 4*d.latency
	}
	ctx, stop := context.WithTimeout(context.Background(), 10*least+20*time.Second)
	defer stop()
	begun := time.Now()
	for _, c := range plan {
		all.Go(func() {
			time.Sleep(c.At)
			ctx, cancel := ctx, context.CancelFunc(func() {})
			if c.Cancel > 0 {
				ctx, cancel = context.WithTimeout(ctx, c.Cancel)
			}
			defer cancel()
			p := ps[c.Process]
			r := p.ask(c.Tag)
			r.Exact, r.Document = c.Exact, c.Document
			if err := p.section(ctx, r, c.Hold); err != nil && c.Cancel == 0 {
				d.fault("%+v: %v", c, err)
			}
		})
	}
	all.Wait()
	took := time.Since(begun)
	if most := 2*least + time.Duration(len(plan))*40*time.Millisecond + time.Second; took > most {
		d.fault("it took %v, more than %v", took, most)
	}
	if n, ms := d.sent(), int(took/time.Millisecond); n > 10*len(plan)+min(ms, 200)+ms/20 { // waiters ask more and more rarely
		d.fault("%s", fmt.Sprintf("%d commands in %v", n, took))
	}
}
