package scenarios

import (
	"context"
	"errors"
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
	notBefore     = "a dead or stopped leader's lock is granted no earlier than its expiry"
	lateRefused   = "a stopped leader's late guarded write is refused"
	lateNoticed   = "a stopped leader notices the loss at its release"
)

// reign is what a leader says again and again: when its lease was valid, by the clock of
// the machine that all processes share. Nobody may set that clock meanwhile. After its
// lease it says whether its late calls noticed the loss.
type reign struct {
	Fence, At                     int64
	Over, UpdateLost, ReleaseLost bool
}

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
				say(reign{Fence: lease.Fence(), At: at})
			}
			time.Sleep(5 * time.Millisecond)
		}
		if lease.Err() != nil {
			after := context.WithoutCancel(ctx)
			update, release := lease.Update(after, increment), lease.Release(after)
			say(reign{Fence: lease.Fence(), Over: true, UpdateLost: errors.Is(update, doclock.ErrLost), ReleaseLost: errors.Is(release, doclock.ErrLost)})
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

// campaign kills and stops the leader in turn, n times each. It checks each term against
// the next, and what a leader does that was stopped.
func campaign(t testing.TB, n int, counts *tally.Tally) {
	c := &crew{counting: counting{t, counts}, docs: mongotest.Database(t).Collection("names")}
	var mu sync.Mutex
	terms, late := map[int64]*term{}, map[int64]reign{} // by fencing token
	candidate := func() *child.Process {
		p, _ := start(c, "candidate", job{URI: mongotest.URI(t)}, func(p *child.Process, _ string, v reign) {
			mu.Lock()
			defer mu.Unlock()
			if v.Over {
				late[v.Fence] = v
				return
			}
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
	stored := func() (doc stored) {
		c.must(c.docs.FindOne(t.Context(), doclock.ID("leader")).Decode(&doc))
		return doc
	}
	var stopped []int64 // fencing tokens
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
		// Until the next grant the only entry is the leader's.
		fence, doc := last, stored()
		next := leader()
		if entries := doc.Lock.Tags["write"]; doc.Lock.Fence == fence && len(entries) == 1 {
			granted := time.UnixMilli(last) // a grant's fence is its time, unless there are many grants
			c.check(notBefore, !granted.Before(entries[0].Expires), "granted at %v, the entry expired at %v", granted, entries[0].Expires)
			if stop {
				stopped = append(stopped, fence)
			}
		}
		if entries := stored().Lock.Tags["write"]; len(entries) > 1 {
			c.Violated(notBefore, "the old leader's entry is beside the new one: %v", entries)
		}
		if stop {
			leading.Continue()
		}
		leading = next
	}
	for p := range processes {
		_ = p.End()
	}
	for _, fence := range stopped {
		c.check(lateRefused, late[fence].UpdateLost, "the leader of term %d has written", fence)
		c.check(lateNoticed, late[fence].ReleaseLost, "the leader of term %d has released", fence)
	}
	if n := stored().Count; n > 0 {
		c.Violated(lateRefused, "%d writes were applied", n)
	}
	fences := slices.Sorted(maps.Keys(terms))
	for i, fence := range fences[1:] {
		before, term := terms[fences[i]], terms[fence]
		c.check(onlyOne, before.last < term.first, "a leader believed until %v after the next one began", time.Duration(before.last-term.first))
	}
}
