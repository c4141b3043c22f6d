package leaders

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock/proptest/child"
	"github.com/doclock/doclock/proptest/tally"
)

// What is counted.
const (
	Killed  = "leader killed (-9)"
	Stopped = "leader stopped past its lease (SIGSTOP), and continued"
	OnlyOne = "no two leaders believe in their leases at the same time"
)

const candidates = 5

// Run kills or stops the leader n times. It returns how long it took each time
// until the next one led.
func Run(ctx context.Context, uri, db string, n int, t *tally.Tally) (gaps []time.Duration, err error) {
	r := &run{args: []string{uri, db}, terms: map[int64]*term{}}
	var processes []*child.Process
	defer func() {
		for _, p := range processes {
			_ = p.End()
		}
	}()
	for range candidates {
		p, err := r.start(ctx)
		if err != nil {
			return nil, err
		}
		processes = append(processes, p)
	}
	last, _, err := r.after(ctx, 0)
	if err != nil {
		return nil, err
	}
	for range n {
		time.Sleep(rand.N(300 * time.Millisecond)) // the leader is met at any moment of its term
		leader := r.leader(last)
		begun := time.Now()
		kill := rand.N(2) == 0
		if kill {
			leader.Kill()
			t.Fired(Killed, 1)
		} else {
			leader.Stop()
			t.Fired(Stopped, 1)
		}
		fence, from, err := r.after(ctx, last)
		if err != nil {
			return nil, err
		}
		last = fence
		gaps = append(gaps, from.Sub(begun))
		if !kill {
			leader.Continue()
			continue
		}
		_ = leader.End()
		p, err := r.start(ctx)
		if err != nil {
			return nil, err
		}
		processes[slices.Index(processes, leader)] = p
	}
	for _, p := range processes {
		_ = p.End()
	}
	r.check(t)
	return gaps, nil
}

// term is the time for which a leader said that its lease was valid.
type term struct {
	leader      *child.Process
	first, last int64
}

type run struct {
	args []string

	mu    sync.Mutex
	terms map[int64]*term // by fencing token
}

// after waits for a term after the one with this fencing token.
func (r *run) after(ctx context.Context, last int64) (fence int64, from time.Time, err error) {
	bounded, end := context.WithTimeout(ctx, time.Minute)
	defer end()
	for bounded.Err() == nil {
		r.mu.Lock()
		for _, fence := range slices.Sorted(maps.Keys(r.terms)) {
			if fence > last {
				from := time.Unix(0, r.terms[fence].first)
				r.mu.Unlock()
				return fence, from, nil
			}
		}
		r.mu.Unlock()
		time.Sleep(time.Millisecond)
	}
	return 0, from, fmt.Errorf("nobody leads: %w", context.Cause(bounded))
}

func (r *run) leader(fence int64) *child.Process {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.terms[fence].leader
}

// check compares each term with the next. The processes have ended.
func (r *run) check(t *tally.Tally) {
	fences := slices.Sorted(maps.Keys(r.terms))
	for i, fence := range fences[1:] {
		before, term := r.terms[fences[i]], r.terms[fence]
		t.Checked(OnlyOne, 1)
		if before.last >= term.first {
			t.Violated(OnlyOne, "a leader believed until %v after the next one began", time.Duration(before.last-term.first))
		}
	}
}

func (r *run) start(ctx context.Context) (*child.Process, error) {
	return child.Start(ctx, childName, r.args, r.note)
}

// note takes in a line of a leader. A process that was killed may have left half
// of one.
func (r *run) note(p *child.Process, line string) {
	var fence, at int64
	if n, err := fmt.Sscanf(strings.TrimSpace(line), "valid %d %d", &fence, &at); err != nil || n != 2 || at < 1e18 {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.terms[fence] == nil {
		r.terms[fence] = &term{leader: p, first: at}
	}
	r.terms[fence].last = at
}
