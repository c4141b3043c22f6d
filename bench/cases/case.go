// Package cases has the questions of the benchmark, and measures the answers.
package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/doclock/doclock/bench/servers"
	"github.com/doclock/doclock/bench/subjects"
	"golang.org/x/perf/benchfmt"
)

// Case is one question. Its answer is a line for each round of each subject.
type Case struct {
	Name, About string
	run         func(context.Context, *Run, []*subjects.Subject) error
	subjects    []string      // in the order of the lines; the first of them that begins with "plain" is what the others are compared with
	ttl         time.Duration // how long a dead holder's lock is kept; doclock's default in the cases that don't wait for an expiry
}

var (
	// pairs can be acquired and released.
	pairs = []string{"plain", "doclock", "monglock-write", "monglock-multi", "redislock", "etcd"}
	// writers read, compute and write without losing a write.
	writers = slices.Insert(slices.Clone(pairs), 1, "optimistic")
	// waiters wait for one another's locks.
	waiters = []string{"doclock", "monglock-write", "redislock", "etcd"}
)

// cases in the order in which they run.
var cases = []Case{
	{"pair", "acquire and release, nobody contends", uncontended(pair), pairs, 10 * time.Second},
	{"rmw", "read-modify-write of one document, nobody contends", uncontended(increment), writers, 10 * time.Second},
	// plain-alone is a single client that sends plain $incs one after another.
	{"hot64", "64 goroutines read-modify-write one document", runHot, slices.Insert(slices.Clone(writers), 0, "plain-alone"), 10 * time.Second},
	{"handoff", "from a release in one process to the grant in another", runHandoff, waiters, 10 * time.Second},
	{"claim", "32 workers in 4 processes claim the documents of a queue by priority", runClaim,
		[]string{"plain-claim", "doclock-claim", "plain-claim-10", "doclock-claim-10", "plain-claim-50", "doclock-claim-50"}, 10 * time.Second},
	{"contacts", "adders of one category insert contacts, and nobody may delete it meanwhile", runContacts,
		[]string{"plain-transaction", "doclock-undo", "doclock-undo-shared", "doclock-transaction", "doclock-transaction-shared"}, 10 * time.Second},
	{"idle", "commands that 100 waiters send for a lock that nobody releases", runIdle, waiters, 2 * time.Minute},
}

// Choose is the cases with these names, or all.
func Choose(names string) (chosen []Case, err error) {
	if names == "" {
		return cases, nil
	}
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(cases, func(c Case) bool { return c.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no case %q", name)
		}
		chosen = append(chosen, cases[i])
	}
	return chosen, nil
}

// Run is one run of the benchmark.
type Run struct {
	Servers servers.Servers
	Quick   bool
	Setting []benchfmt.Config                // the lines before the results
	Say     func(format string, args ...any) // for the progress
	Report  func(line *benchfmt.Result) error
	now     Case // the one that runs
}

// Run runs the cases. One that fails doesn't keep the next ones from running.
func (r *Run) Run(ctx context.Context, chosen []Case) error {
	var failed []error
	for i, c := range chosen {
		if ctx.Err() != nil {
			break
		}
		r.Say("[%d/%d] %s: %s", i+1, len(chosen), c.Name, c.About)
		r.now = c
		if err := r.ask(ctx, c); err != nil {
			r.Say("  FAILED: %v", err)
			failed = append(failed, fmt.Errorf("%s: %w", c.Name, err))
		}
	}
	return errors.Join(append(failed, ctx.Err())...)
}

// ask opens the available subjects.
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

// key is the document of a subject in the case that runs.
func (r *Run) key(s *subjects.Subject) string { return r.now.Name + " " + s.Name }

// inTurn measures each subject once in a round, in an order that changes, because some leave work at the server. Then
// it reports the round. Round -1 warms up, and is not reported.
func (r *Run) inTurn(first, rounds int, all []*subjects.Subject, measured func(s *subjects.Subject, turn int) (Round, error)) error {
	for turn := first; turn < rounds; turn++ {
		r.Say("  round %d of %d", turn+1, rounds)
		done := map[*subjects.Subject]Round{}
		for _, i := range rand.Perm(len(all)) {
			round, err := measured(all[i], turn)
			if err != nil {
				return fmt.Errorf("%s: %w", all[i].Name, err)
			}
			done[all[i]] = round
		}
		if turn >= 0 {
			if err := r.report(all, done); err != nil {
				return err
			}
		}
	}
	return nil
}

// report has a line for each subject of a round.
func (r *Run) report(all []*subjects.Subject, done map[*subjects.Subject]Round) error {
	plain := slices.IndexFunc(all, func(s *subjects.Subject) bool { return strings.HasPrefix(s.Name, "plain") })
	for _, s := range all {
		round := done[s]
		values := round.values()
		if plain >= 0 {
			values = append(values, benchfmt.Value{Value: over(round.median(), done[all[plain]].median()), Unit: "time-over-plain"},
				benchfmt.Value{Value: over(round.perSecond(), done[all[plain]].perSecond()), Unit: "rate-over-plain"})
		}
		if err := r.line(s.Name, max(1, len(round.Latencies)), append(values, round.Extra...)); err != nil {
			return err
		}
	}
	return nil
}

// line reports one line of the case that runs.
func (r *Run) line(subject string, n int, values []benchfmt.Value) error {
	name := strings.ToUpper(r.now.Name[:1]) + r.now.Name[1:] + "/subject=" + subject
	result := &benchfmt.Result{Name: benchfmt.Name(name), Iters: n, Values: values, Config: r.Setting}
	for i, v := range values { // four digits are enough
		values[i].Value, _ = strconv.ParseFloat(strconv.FormatFloat(v.Value, 'g', 4, 64), 64)
	}
	return r.Report(result)
}
