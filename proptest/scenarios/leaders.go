package scenarios

import (
	"context"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	leaderKilled  = "leader killed (-9)"
	leaderStopped = "leader stopped past its lease (SIGSTOP), and continued"
	onlyOne       = "no two leaders believe in their leases at the same time"
)

// valid is what a leader says again and again: when its lease was valid, by the clock of
// the machine that all processes share. Nobody may set that clock meanwhile.
type valid struct{ Fence, At int64 }

// lead campaigns until ctx ends.
func lead(ctx context.Context, j job, names *mongo.Collection) error {
	locks, err := writelock.New(names, doclock.Upsert(), doclock.TTL(2*time.Second), doclock.ClockTolerance(200*time.Millisecond), doclock.Owner(j.Owner))
	if err != nil {
		return err
	}
	_ = locks.Lead(ctx, doclock.ID("leader"), func(ctx context.Context, lease *doclock.Lease) error {
		for ctx.Err() == nil {
			at := time.Now().UnixNano()
			if lease.Err() == nil { // so it was valid at that time
				say(valid{lease.Fence(), at})
			}
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
	return nil
}

// term is the time for which a leader said that its lease was valid.
type term struct {
	leader      *child.Process
	first, last int64
}

// campaign kills and stops the leader in turn, n times each, and checks each term
// against the next.
func campaign(t testing.TB, n int, counts *tally.Tally) {
	c := &crew{counting: counting{t, counts}, docs: mongotest.Database(t).Collection("names")}
	var mu sync.Mutex
	terms := map[int64]*term{} // by fencing token
	candidate := func() *child.Process {
		p, _ := start(c, "candidate", job{URI: mongotest.URI(t)}, func(p *child.Process, _ string, v valid) {
			mu.Lock()
			defer mu.Unlock()
			if terms[v.Fence] == nil {
				terms[v.Fence] = &term{leader: p, first: v.At}
			}
			terms[v.Fence].last = v.At
		})
		return p
	}
	var last int64
	leader := func() (p *child.Process) { // of a later term than the last one
		c.until("somebody leads", func() bool {
			mu.Lock()
			defer mu.Unlock()
			fence := slices.Max(append(slices.Collect(maps.Keys(terms)), last))
			if fence == last {
				return false
			}
			last, p = fence, terms[fence].leader
			return true
		})
		return p
	}
	processes := map[*child.Process]bool{}
	for range 5 {
		processes[candidate()] = true
	}
	leading := leader()
	for i := range 2 * n {
		stop := i%2 == 1
		if stop {
			leading.Stop()
			c.Fired(leaderStopped, 1)
		} else {
			leading.Kill()
			_ = leading.End()
			delete(processes, leading)
			processes[candidate()] = true
			c.Fired(leaderKilled, 1)
		}
		next := leader()
		if stop {
			leading.Continue()
		}
		leading = next
	}
	for p := range processes {
		_ = p.End()
	}
	fences := slices.Sorted(maps.Keys(terms))
	for i, fence := range fences[1:] {
		before, term := terms[fences[i]], terms[fence]
		c.check(onlyOne, before.last < term.first, "a leader believed until %v after the next one began", time.Duration(before.last-term.first))
	}
}
