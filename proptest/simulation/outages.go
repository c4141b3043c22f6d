package simulation

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// EntriesGone is counted for each outage.
const EntriesGone = "an entry that nobody holds is gone within five seconds of the end of an outage"

// calmSeed is a seed without faults of its own, under WritePreferring.
const calmSeed = 20

// steps of a command at which an outage begins.
var steps = []string{"before a request arrives", "after a reply", "between the execution and the reply"}

// operations are those that an outage meets: each is a caller's work from the first
// call to the end of its lease.
var operations = []struct {
	name string
	run  func(r runner, ctx context.Context, p *program)
}{
	{"Acquire", func(r runner, ctx context.Context, p *program) { r.hold(ctx, p) }},
	{"Acquire for an hour", func(r runner, ctx context.Context, p *program) { r.hold(ctx, p, doclock.TTL(time.Hour)) }},
	{"Acquire for at least 20 hours", func(r runner, ctx context.Context, p *program) { r.hold(ctx, p, doclock.HoldAtLeast(20*time.Hour)) }},
	{"Acquire for at most 5 seconds", func(r runner, ctx context.Context, p *program) { r.hold(ctx, p, doclock.HoldAtMost(5*time.Second)) }},
	{"Enqueue", func(r runner, ctx context.Context, p *program) {
		pl := r.order(p)
		if t := r.ticket(ctx, p, &pl); t != nil {
			_ = t.Cancel(ctx)
		}
	}},
	{"Do", func(r runner, ctx context.Context, p *program) { r.long(ctx, p, func(*holding) {}) }},
	{"Do and Convert", func(r runner, ctx context.Context, p *program) {
		r.long(ctx, p, func(h *holding) { r.settle(r.convertTo(ctx, h, "read")) })
	}},
	{"Do and UpdateAndRelease", func(r runner, ctx context.Context, p *program) {
		r.long(ctx, p, func(h *holding) { r.write(ctx, h, "UpdateAndRelease", h.lease.UpdateAndRelease) })
	}},
	{"Lead", func(r runner, ctx context.Context, p *program) {
		r.campaign(ctx, p, func(ctx context.Context, _ *holding) error {
			sleep(ctx, 6*time.Second)
			return nil
		})
	}},
}

// order is an acquire of the document that an outage is about.
func (r runner) order(p *program) plan {
	g := r.groups[0]
	return plan{acquire: acquire{group: g, document: "a", tag: "write"}, locker: p.lockers[g], filter: bson.M{"_id": "a"}, ttl: p.ttl(g)}
}

func (r runner) hold(ctx context.Context, p *program, opts ...doclock.AcquireOption) {
	pl := r.order(p)
	pl.opts = opts
	r.settle(r.get(ctx, p, "Acquire", &pl, pl.locker.Acquire))
}

func (r runner) long(ctx context.Context, p *program, then func(*holding)) {
	pl := r.order(p)
	r.doing(ctx, p, &pl, func(_ context.Context, h *holding) error {
		time.Sleep(6 * time.Second)
		then(h)
		return nil
	})
}

// Outages cuts a program off, or has the server refuse all, at each step of each operation,
// for each length, with the caller gone or not, while another program wants the lock. It
// makes one of some, from the first on.
func Outages(t *testing.T, first uint64, some int, counts *tally.Tally) {
	made := int(first % uint64(some))
	for _, of := range operations {
		for _, length := range lengths {
			for i := range 4 * len(steps) {
				step, gone, refused := i/4, i%2 == 1, i/2%2 == 1
				if made++; made%some != 0 {
					continue
				}
				for k := 0; ; k++ {
					met := false
					synctest.Test(t, func(t *testing.T) {
						shape := shapeOf(calmSeed)
						shape.fits = true
						s := newInMemory(world{shape: shape, mem: locktest.New(t), pace: 1})
						name := fmt.Sprintf("%s, an outage %s %s of command %d, the caller gone: %v, the server answers: %v", of.name, length.name, steps[step], k, gone, refused)
						met = s.outage(of.run, (length.least+length.most)/2, step, k, gone, refused, counts, name)
					})
					if !met || t.Failed() {
						break
					}
					what := "program cut off "
					if refused {
						what = faultTrouble + " "
					}
					counts.Fired(inMemory+outage(what+steps[step], length.name), 1)
				}
			}
		}
	}
}

// outage runs one operation, whose command k meets the outage. It returns false if there
// are fewer commands.
func (s *run) outage(run func(runner, context.Context, *program), d time.Duration, step, k int, gone, refused bool, counts *tally.Tally, name string) (met bool) {
	p, other := s.programs[0], s.programs[1]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var begun atomic.Int64
	cut := func() {
		p.strikes[0].Store(nil)
		p.strikes[1].Store(nil)
		met = true
		if refused {
			s.mem.Fail(1<<30, mongo.CommandError{Code: failOvers[k%len(failOvers)], Message: "failed over on purpose"})
			time.AfterFunc(d, func() { s.mem.Fail(0, mongo.CommandError{}) })
		} else {
			s.mem.Cut(p.client)
			time.AfterFunc(d, func() { s.mem.Reconnect(p.client) })
		}
		if gone {
			time.AfterFunc(100*time.Millisecond, cancel)
		}
	}
	count := func() {
		if begun.Add(1)-1 != int64(k) {
			return
		}
		if step == 2 {
			s.mem.LoseReplies(1, locktest.Acquires, locktest.Renewals, locktest.Writes, locktest.Releases, locktest.CleanUps)
			p.strikes[1].Store(&cut)
			return
		}
		cut()
	}
	p.strikes[min(step, 2)%2].Store(&count)
	rival, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for r := s.runner(1); rival.Err() == nil; time.Sleep(500 * time.Millisecond) {
			r.hold(rival, other)
			r.campaign(rival, other, func(context.Context, *holding) error { return nil })
		}
	}()
	run(s.runner(0), ctx, p)
	stop()
	<-done
	time.Sleep(d + 5*time.Second)
	counts.Checked(EntriesGone, 1)
	for _, e := range s.operator.entries() {
		if !e.Expired() && e.State != admin.Remainder {
			counts.Violated(EntriesGone, "%s: %v", name, e)
		}
	}
	s.checkCommands(counts)
	for _, p := range s.programs {
		s.close(p)
	}
	synctest.Wait()
	return met
}
