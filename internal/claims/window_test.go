package claims

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// event is what happens in virtual time.
type event struct {
	at  time.Duration
	run func()
}

// simulate has workers claim all documents, and counts the commands of a claim and
// how many documents that come first were still free.
func simulate(processes, workers, documents int, work time.Duration, seed uint64) (commands float64, distance int) {
	lookups, collisions := 0, 0
	rng := rand.New(rand.NewPCG(seed, 1))
	var events []event
	var now time.Duration
	at := func(d time.Duration, run func()) { events = append(events, event{now + d, run}) }
	latency := func() time.Duration { return time.Millisecond/2 + time.Duration(rng.IntN(int(time.Millisecond))) }
	pins := make([]engine.Pin, documents)
	for i := range pins {
		_, data, _ := bson.MarshalValue(int64(i))
		pins[i] = engine.Pin{{Key: "_id", Value: bson.RawValue{Type: bson.TypeInt64, Value: data}}}
	}
	index := map[string]int{}
	taken := make([]bool, documents)
	done := 0
	type process struct {
		w       window
		looking bool
		idle    []func()
	}
	for range processes {
		p := &process{w: newWindow(rng.IntN)}
		var step, carry func()
		judge := func() {
			for len(p.idle) > 0 {
				c, ok := p.w.take(now)
				if !ok {
					break
				}
				p.idle = p.idle[1:]
				l := latency()
				at(l/2, func() {
					i := index[c.key]
					won := !taken[i]
					if won {
						taken[i] = true
						done++
						d := 0
						for j := range i {
							if !taken[j] {
								d++
							}
						}
						distance = max(distance, d)
					} else {
						collisions++
					}
					at(l/2, func() {
						p.w.settle(c, !won, now)
						if won {
							at(work+latency(), func() { step() })
						} else {
							step()
						}
					})
				})
			}
			if len(p.idle) > 0 && !p.looking {
				p.looking = true
				limit := p.w.limit(len(p.idle), now)
				sent := now
				lookups++
				l := 2 * latency()
				at(l/2, func() {
					var found []engine.Pin
					for i := range pins {
						if !taken[i] && len(found) < limit {
							found = append(found, pins[i])
						}
					}
					at(l/2, func() {
						p.looking = false
						p.w.fill(found, sent)
						if len(found) > 0 {
							carry()
						}
					})
				})
			}
		}
		carry = judge
		step = func() { p.idle = append(p.idle, nil); carry() }
		for range workers {
			at(time.Duration(rng.IntN(int(5*time.Millisecond))), step)
		}
	}
	for i, pin := range pins {
		index[waitqueue.Key(pin)] = i
	}
	for len(events) > 0 && done < documents {
		k := 0
		for i := range events {
			if events[i].at < events[k].at {
				k = i
			}
		}
		e := events[k]
		events = append(events[:k], events[k+1:]...)
		now = e.at
		e.run()
	}
	return float64(lookups+collisions+done) / float64(done), distance
}

// Processes that compete send little more than one command for a claim, and one
// that is alone keeps the order.
func TestCommandsOfAClaim(t *testing.T) {
	for _, c := range []struct {
		processes, workers, documents int
		most                          float64 // commands of a claim
		distance                      int
	}{
		{1, 1, 200, 1.08, 0},
		{1, 8, 500, 1.08, 7}, // those whose tries are under way
		{2, 8, 2000, 1.2, widest},
		{4, 8, 2000, 1.2, widest},
		{4, 1, 2000, 1.2, widest},
	} {
		for seed := range uint64(3) {
			got, distance := simulate(c.processes, c.workers, c.documents, 0, seed)
			t.Logf("%d processes with %d workers: %.3f commands a claim, %d out of order", c.processes, c.workers, got, distance)
			if got > c.most || distance > c.distance {
				t.Errorf("%d processes with %d workers: %.3f commands a claim, %d out of order", c.processes, c.workers, got, distance)
			}
		}
	}
}
