package cases

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/bench/subjects"
	"github.com/doclock/doclock/internal/child"
	"golang.org/x/perf/benchfmt"
	"golang.org/x/sync/errgroup"
)

// runClaim has 32 workers of four processes empty a queue: each claims the pending document of the highest priority, or a batch, and
// finishes it at once. The commands of a claim are the look-ups and the tries; the final write is one more, and not
// counted. The latency is the time from a worker's wish to its document, in which it is idle.
func runClaim(ctx context.Context, r *Run, all []*subjects.Subject) error {
	const processes, workers = 4, 8
	size := pick(r, 2000, 300)
	return r.inTurn(0, pick(r, 3, 2), all, func(s *subjects.Subject, _ int) (Round, error) {
		documents := size
		if s.Batch > 0 {
			documents *= 6 // some for all workers, several times
		}
		if err := s.Fill(ctx, documents); err != nil {
			return Round{}, err
		}
		e := errand{Subject: s.Name, Workers: workers, Window: pick(r, 8*time.Second, 3*time.Second), TTL: r.now.ttl, Servers: r.Servers}
		var got claims
		err := child.Together(ctx, childName, slices.Repeat([]errand{e}, processes), func(_ int, line string) error {
			var one claims
			err := json.Unmarshal([]byte(line), &one)
			got.add(one)
			return err
		})
		if err != nil {
			return Round{}, err
		}
		round, twice, left := got.count(documents)
		finished, err := s.Finished(ctx)
		if lost := max(0, documents-left-int(finished)); err == nil && lost+twice > 0 {
			err = fmt.Errorf("%d documents were claimed twice, %d final writes were lost", twice, lost)
		}
		return round, err
	})
}

// count is the round of claims of this many documents, with the number of those that were claimed more than once, and of
// those that were never claimed. The final writes are not among the commands.
func (c claims) count(documents int) (r Round, twice, left int) {
	r.Commands = c.Commands - int64(len(c.All))
	byPriority := map[int]int{}
	var began, ended int64
	for i, one := range c.All {
		r.Latencies = append(r.Latencies, time.Duration(one.Granted-one.Wished))
		if byPriority[one.Priority]++; byPriority[one.Priority] == 2 {
			twice++
		}
		if i == 0 {
			began = one.Wished
		}
		began, ended = min(began, one.Wished), max(ended, one.Finished)
	}
	left, r.Took = documents-len(byPriority), time.Duration(ended-began)
	worst := slices.Max(append(c.places(), 0))
	r.Extra = []benchfmt.Value{{Value: float64(worst), Unit: "places-off-worst"}, {Value: float64(left), Unit: "left"}}
	return r, twice, left
}

// places has, for each claim, the number of documents of higher priority that were claimed later. It compares when the
// workers got their answers, which overtake each other on their way: so it is not always 0 for claims in the exact order.
// Fencing tokens are no better: a command has its token from the time of its begin, and may wait for long at a row that
// another one has locked.
func (c claims) places() (places []int) {
	for _, one := range c.All {
		better := 0
		for _, other := range c.All {
			if other.Priority > one.Priority && other.Granted > one.Granted {
				better++
			}
		}
		places = append(places, better)
	}
	return places
}

// claims are a claimant's answer.
type claims struct {
	All       []claim
	Commands  int64
	FoundNone int // how often a worker found none, and looked whether some are locked
}

// claim is one document's claim. The times are of the wall clock, which all
// processes share, in nanoseconds.
type claim struct {
	Priority                  int
	Wished, Granted, Finished int64
}

func (c *claims) add(more claims) {
	c.All = append(c.All, more.All...)
	c.Commands += more.Commands
	c.FoundNone += more.FoundNone
}

// claimAll has workers claim and finish documents until none is pending, or the
// window ends.
func claimAll(ctx context.Context, e errand, s *subjects.Subject) error {
	if err := warmUp(ctx, s, e.Workers); err != nil {
		return err
	}
	if err := ready(ctx); err != nil {
		return err
	}
	var mu sync.Mutex
	var all claims
	before, end := s.Sent.Total(), time.Now().Add(e.Window)
	group, working := errgroup.WithContext(ctx)
	for range e.Workers {
		group.Go(func() error {
			own, err := work(working, s, end)
			mu.Lock()
			defer mu.Unlock()
			all.add(own)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	all.Commands = s.Sent.Total() - before - int64(all.FoundNone)
	return json.NewEncoder(os.Stdout).Encode(all)
}

// work is one worker. If it finds no free document, it looks again after a pause
// that doubles.
func work(ctx context.Context, s *subjects.Subject, end time.Time) (own claims, err error) {
	const shortest, longest = 2 * time.Millisecond, 32 * time.Millisecond
	wished, pause := time.Now(), shortest
	for time.Now().Before(end) {
		batch, err := s.Claim(ctx)
		granted := time.Now()
		if errors.Is(err, subjects.ErrNoneFree) {
			own.FoundNone++
			if more, err := s.Pending(ctx); err != nil || !more {
				return own, err
			}
			time.Sleep(pause)
			pause = min(2*pause, longest)
			continue
		}
		if err != nil {
			return own, err
		}
		each := granted.Sub(wished) / time.Duration(max(1, len(batch))) // a document's part of the wait
		for _, c := range batch {
			if err := c.Finish(ctx); err != nil {
				return own, err
			}
			finished := time.Now()
			own.All = append(own.All, claim{c.Priority, granted.Add(-each).UnixNano(), granted.UnixNano(), finished.UnixNano()})
			wished, pause = finished, shortest
		}
	}
	return own, nil
}
