// Package cases has the questions of the benchmark, and measures the answers.
package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock/bench/measure"
	"github.com/doclock/doclock/bench/servers"
	"github.com/doclock/doclock/bench/subjects"
)

// Case is one question. Its answer is a result for each subject.
type Case struct {
	Name, About string
	run         func(context.Context, *Run, []*subjects.Subject) error
	subjects    []string         // in the order of the table
	Columns     []string         // of its extra values, those that its table has a column for
	ttl         time.Duration    // how long a dead holder's lock is kept
	over        *servers.Network // between the clients and the servers; nil for none
}

// ttl is the TTL of the locks in the cases that don't wait for an expiry:
// doclock's default.
const ttl = 10 * time.Second

var (
	// pairs can be acquired and released.
	pairs = []string{"plain", "doclock", "monglock-write", "monglock-multi", "find-upsert", "redislock", "etcd"}
	// writers read, compute and write without losing a write.
	writers = []string{"plain", "optimistic", "doclock", "monglock-write", "monglock-multi", "find-upsert", "redislock", "etcd"}
	// hotWriters have one more: plain-1 is a single client that sends plain $incs one after another.
	hotWriters = slices.Concat([]string{"plain-1"}, writers)
	// waiters wait for one another's locks.
	waiters = []string{"doclock", "doclock-fair", "monglock-write", "find-upsert", "redislock", "etcd"}
)

// cases in the order in which they run, without a network.
var cases = []Case{
	{Name: "pair", About: "acquire and release, nobody contends", run: uncontended(pair), subjects: pairs},
	{Name: "rmw", About: "read-modify-write of one document, nobody contends", run: uncontended(increment), subjects: writers},
	{Name: "hot4", About: "4 goroutines read-modify-write one document", run: hot(4), subjects: hotWriters},
	{Name: "hot64", About: "64 goroutines read-modify-write one document", run: hot(64), subjects: hotWriters},
	{Name: "hot1000", About: "1,000 goroutines read-modify-write one document", run: hot(1000), subjects: hotWriters},
	{Name: "processes", About: "4 processes of 16 goroutines read-modify-write one document", run: runProcesses,
		subjects: []string{"plain", "optimistic", "doclock", "doclock-fair", "monglock-write", "redislock", "etcd"}},
	{Name: "readers", About: "readers and a few writers (95:5) of one document", run: runReaders,
		subjects: []string{"doclock-read-preferring", "doclock-write-preferring", "doclock-fair", "monglock-multi"}},
	{Name: "handoff", About: "from a release in one process to the grant in another", run: runHandoff, subjects: waiters},
	{Name: "claim", About: "workers in 4 processes claim the documents of a queue by priority", run: runClaim,
		subjects: []string{"doclock-claim", "find-and-modify", "find-try-8"},
		Columns: []string{"workers", "claimed_twice", "left", "found_none", "idle_share", "idle_max_ms",
			"places_off_p50", "places_off_max", "overtaken_p50", "overtaken_max"}},
	{Name: "idle", About: "commands sent while waiting for a lock that nobody releases", run: runIdle, subjects: slices.Repeat(waiters, len(idleWaiters)), ttl: 2 * time.Minute},
	{Name: "takeover", About: "from the holder's death to the next grant", run: runTakeover, subjects: waiters, ttl: 2 * time.Second},
}

// Latencies are the round trips of the cases over a network.
var Latencies = []time.Duration{time.Millisecond, 5 * time.Millisecond}

// Plan is all cases: those without a network, and some of them again over each
// latency.
func Plan() []Case {
	all := slices.Clone(cases)
	for _, d := range Latencies {
		for _, c := range cases {
			if slices.Contains([]string{"pair", "rmw", "hot64", "handoff", "claim"}, c.Name) {
				c.Name, c.About, c.over = onNetwork(c.Name, d), fmt.Sprintf("%s; a round trip takes %v more", c.About, d), &servers.Network{RoundTrip: d}
				all = append(all, c)
			}
		}
	}
	return all
}

// onNetwork is the name of a case over a latency.
func onNetwork(kase string, d time.Duration) string { return kase + "-" + d.String() }

// Choose keeps the cases whose names match one of the patterns, in the order of
// the patterns.
func Choose(all []Case, patterns string) (chosen []Case, err error) {
	if patterns == "" {
		return all, nil
	}
	for pattern := range strings.SplitSeq(patterns, ",") {
		found := false
		for _, c := range all {
			matches, err := path.Match(pattern, c.Name)
			if err != nil {
				return nil, fmt.Errorf("case %q: %w", pattern, err)
			}
			found = found || matches
			if matches && !slices.ContainsFunc(chosen, func(earlier Case) bool { return earlier.Name == c.Name }) {
				chosen = append(chosen, c)
			}
		}
		if !found {
			var names []string
			for _, c := range all {
				names = append(names, c.Name)
			}
			return nil, fmt.Errorf("no case %q; there are %s", pattern, strings.Join(names, ", "))
		}
	}
	return chosen, nil
}

// Run is one run of the benchmark.
type Run struct {
	Servers servers.Servers
	Quick   bool
	Say     func(format string, args ...any) // for the progress
	Results measure.Results
	now     Case // the one that runs
}

// Run runs the cases. One that fails doesn't keep the next ones from running, and
// the results have what it had measured until then.
func (r *Run) Run(ctx context.Context, chosen []Case) error {
	var failed []error
	for i, c := range chosen {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Say("[%d/%d] %s: %s", i+1, len(chosen), c.Name, c.About)
		if c.ttl == 0 {
			c.ttl = ttl
		}
		r.now, r.Servers.Network = c, c.over
		if err := r.ask(ctx, c); err != nil {
			r.Say("  FAILED: %v", err)
			failed = append(failed, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	return errors.Join(append(failed, ctx.Err())...)
}

// ask opens the available subjects. The report has the missing ones.
func (r *Run) ask(ctx context.Context, c Case) error {
	var all []*subjects.Subject
	for _, name := range c.subjects {
		s, err := subjects.Open(&r.Servers, name, c.ttl)
		if errors.Is(err, subjects.ErrAbsent) {
			r.Say("  %s: %v", name, err)
			continue
		}
		if err != nil {
			return err
		}
		defer s.Close()
		all = append(all, s)
	}
	return c.run(ctx, r, all)
}

// pick returns the full run's value or the quick one's.
func pick[T any](r *Run, full, quick T) T {
	if r.Quick {
		return quick
	}
	return full
}

// result is a subject's result in the case that runs.
func (r *Run) result(name string) *measure.Result {
	if found := r.Results.Find(r.now.Name, name); found != nil {
		return found
	}
	return r.Results.New(r.now.Name, name)
}

// key is the document of a subject in the case that runs.
func (r *Run) key(s *subjects.Subject) string { return r.now.Name + " " + s.Name }

// inTurn measures each subject once in a round, and adds what it did to its result
// of the running case. Round -1 warms up, and is not added.
func (r *Run) inTurn(first, rounds int, all []*subjects.Subject, measured func(s *subjects.Subject, turn int) (measure.Round, error)) error {
	for _, s := range all {
		r.result(s.Name) // in the order of the table
	}
	for turn := first; turn < rounds; turn++ {
		r.Say("  round %d of %d", turn+1, rounds)
		for _, s := range shuffled(all) {
			round, err := measured(s, turn)
			if err != nil {
				return fmt.Errorf("%s: %w", s.Name, err)
			}
			if turn >= 0 {
				one := r.result(s.Name)
				one.Rounds = append(one.Rounds, round)
			}
		}
	}
	return nil
}

// shuffled is the order of turns in a round. Some subjects leave work at the
// server, and they must not always be followed by the same ones.
func shuffled[T any](turns []T) []T {
	turns = slices.Clone(turns)
	rand.Shuffle(len(turns), func(i, j int) { turns[i], turns[j] = turns[j], turns[i] })
	return turns
}

// sleep waits for a time, unless ctx ends first.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
