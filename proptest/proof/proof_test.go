package proof

import (
	"context"
	"flag"
	"fmt"
	"math"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/machine"
	"github.com/doclock/doclock/proptest/mutants"
	"github.com/doclock/doclock/proptest/simulation"
	"github.com/doclock/doclock/proptest/tally"
)

var (
	sample = flag.Bool("sample", false, "run a tenth of the proof, without the model's searches and the mutants, which have tests of their own")
	long   = flag.Bool("long", false, "run five times as much, some of it by new seeds")
	seeded = flag.Bool("mutants", true, "seed faults into the product, too")
)

var histories = flag.Int("histories", 0, "the rounds of TestHistories")

const root = "../.." // of the project

func TestMain(m *testing.M) {
	simulation.Main()
	flag.Parse()
	mongotest.Main(m)
}

type size struct {
	model                     string // how far its searches go; empty for none
	modelRuns                 int    // the least number of random ones
	machineRuns, machineSteps int
	processes, clients        int // of the simulation on a server
	operations                int
	eachFault                 int // the least number of times that each fault must fire
	seeds                     int // of storms of events
	outages                   int // one of so many
}

var (
	part  = size{"", 0, 100, 30, 2, 8, 4_000, 4, 6, 25}
	full  = size{"proof", 50_000, 1_000, 30, 2, 8, 5_000, 20, 60, 1}
	atLen = size{"long", 250_000, 5_000, 30, 4, 16, 5_000, 100, 300, 1}
)

// proof is one run. All parts count in one tally.
type proof struct {
	*testing.T
	size
	counts tally.Tally
	begun  time.Time
}

func TestProof(t *testing.T) {
	p := &proof{T: t, size: full, begun: time.Now()}
	switch {
	case *sample:
		p.size = part
	case *long:
		p.size = atLen
	}
	db, uri := mongotest.Database(t), mongotest.URI(t)
	ctx := t.Context()

	first := uint64(1) // the run of a change repeats its seeds; the long one draws new ones
	if *long {
		first = uint64(p.begun.UnixNano())
	}
	// Some of the parts need processors, some mostly wait for the server, or for the end of leases.
	t.Run("parts", func(t *testing.T) {
		if p.model != "" {
			t.Run("model", func(t *testing.T) {
				t.Parallel()
				p.part("model", func() error { return p.searchModel(ctx) })
			})
		}
		t.Run("in memory", func(t *testing.T) {
			t.Parallel()
			p.part("simulation in memory", func() error {
				simulation.Run(t, simulation.Config{First: first, Seeds: p.seeds, Long: time.Minute}, &p.counts)
				simulation.Outages(t, first, p.outages, &p.counts)
				return nil
			})
			p.part("transactions under a lock", func() error {
				simulation.Transactions(t, simulation.Config{First: first, Seeds: p.seeds, Long: time.Minute}, &p.counts)
				return nil
			})
			p.part("simulation on a replica set", func() error {
				simulation.Cluster(t, simulation.Config{First: first, Seeds: p.seeds / 3, Long: time.Minute}, &p.counts)
				return nil
			})
		})
		t.Run("on the server", func(t *testing.T) {
			t.Parallel()
			p.part("simulation on the server", func() error { return p.histories(ctx, uri) })
		})
		t.Run("the model, and on a killed server", func(t *testing.T) {
			t.Parallel()
			p.part("model against the server", func() error {
				machine.Engine(t, db, p.machineRuns, p.machineSteps, &p.counts)
				return nil
			})
			private, restart := mongotest.Private(t)
			p.part("simulation on a server that is killed", func() error { return p.restarts(ctx, private, restart) })
		})
	})
	if *seeded && !*sample {
		p.part("mutants", func() error {
			all, err := mutants.All()
			if err != nil {
				return err
			}
			return mutants.RunAll(ctx, root, all, &p.counts, os.Stdout)
		})
	}

	failures := p.counts.Failures(p.floors()...)
	for _, failure := range failures { // in full
		fmt.Printf("\n%s\n", failure)
	}
	fmt.Printf("\nThe proof of %+v, %s, %.0f minutes\n", p.size, time.Now().UTC().Format("2006-01-02 15:04 UTC"), time.Since(p.begun).Minutes())
	if err := p.counts.Table(os.Stdout); err != nil {
		t.Error(err)
	}
	for _, failure := range failures { // at the end, where people look first
		what, _, _ := strings.Cut(failure, "\n")
		t.Error(what)
	}
}

// part runs one part, and prints its begin and its duration.
func (p *proof) part(name string, f func() error) {
	begun := time.Now()
	fmt.Printf("%6.0f s  %s …\n", time.Since(p.begun).Seconds(), name)
	err := f()
	fmt.Printf("%6.0f s  %s: %.0f s\n", time.Since(p.begun).Seconds(), name, time.Since(begun).Seconds())
	p.counts.Checked("every part ends without an error", 1)
	if err != nil { // it is printed with the violations, at the end
		p.counts.Violated("every part ends without an error", "%s: %v", name, err)
	}
}

// rounds is the most rounds on a server until each fault has fired often
// enough.
const rounds = 400

// simulation is the size of one round on a server.
func (p *proof) simulation(uri string) simulation.ServerConfig {
	return simulation.ServerConfig{URI: uri, Processes: p.processes, CallersPerProcess: p.clients, Operations: p.operations, Faults: true}
}

// histories simulates on a server, and checks the histories: once without faults, and then
// with faults until each one has fired often enough.
func (p *proof) histories(ctx context.Context, uri string) error {
	var counts tally.Tally // read here, while the other parts count in the proof's
	defer p.counts.Merge(&counts)
	for round := 0; round < rounds && (round < 2 || rarest(&counts) < p.eachFault); round++ {
		cfg := p.simulation(uri)
		cfg.Faults = round > 0
		if _, err := p.simulated(ctx, cfg, round, &counts); err != nil {
			return err
		}
		fmt.Printf("%6.0f s    %d operations, rarest fault fired %d times\n", time.Since(p.begun).Seconds(), (round+1)*p.operations, rarest(&counts))
	}
	return nil
}

// restarts simulates on a server that is killed, until that has happened often enough.
func (p *proof) restarts(ctx context.Context, uri string, restart func()) error {
	var counts tally.Tally
	defer p.counts.Merge(&counts)
	cfg := p.simulation(uri)
	cfg.Operations, cfg.Restart = p.operations/10, restart
	for round := rounds; counts.Faults[simulation.FaultRestarted] < p.eachFault; round++ {
		if _, err := p.simulated(ctx, cfg, round, &counts); err != nil {
			return err
		}
	}
	return nil
}

// simulated makes and checks the history of one round.
func (p *proof) simulated(ctx context.Context, cfg simulation.ServerConfig, round int, into *tally.Tally) (*history.History, error) {
	cfg.Documents, cfg.Seed = 8, uint64(p.begun.UnixNano())+uint64(round)
	h, counts, err := simulation.RunServer(ctx, cfg)
	if err != nil {
		return nil, err
	}
	h.Check(counts)
	linearizable(h, counts, 20*time.Second)
	into.Merge(counts)
	return h, nil
}

// TestHistories makes rounds of histories with faults, and nothing else:
//
//	go test -C proptest/proof -v -timeout 3h -run TestHistories . -args -histories 100
func TestHistories(t *testing.T) {
	p := &proof{T: t, size: full, begun: time.Now()}
	ran := 0
	for round := range *histories {
		if _, err := p.simulated(t.Context(), p.simulation(mongotest.URI(t)), round, &p.counts); err != nil {
			t.Error(err)
		} else {
			ran++
		}
	}
	p.counts.Report(t)
	t.Logf("histories: %d operations, %d violations", ran*p.operations, violations(&p.counts)) // read by .ci/test-against
}

func violations(t *tally.Tally) (sum int) {
	for _, n := range t.Violations {
		sum += n
	}
	return sum
}

func rarest(t *tally.Tally) int {
	least := math.MaxInt
	for _, fault := range simulation.ServerFaults {
		least = min(least, t.Faults[fault])
	}
	return least
}

// floors fail a proof that passed because it did nothing.
func (p *proof) floors() []tally.Floor {
	return slices.Concat(simulation.ServerFloors(p.operations, p.eachFault), simulation.Floors(p.seeds), simulation.ClusterFloors(p.seeds/3),
		simulation.TransactionFloors(p.seeds), tally.Floors("check", p.modelRuns, modelRuns))
}

const (
	modelRuns   = "model, random: runs that keep every property"
	modelWorlds = "model, exhaustive: states that keep every property"
)

var (
	passed  = regexp.MustCompile(`(\d+) walks of`)
	covered = regexp.MustCompile(`completely, all others to depth \d+ at least; (\d+) states`)
)

// model runs the model's own tests, which need no server, and counts what they
// report.
func (p *proof) searchModel(ctx context.Context) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-count=1", "-v", "-timeout=120m", "./proptest/model/...")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "DOCLOCK_MODEL="+p.model)
	out, err := cmd.CombinedOutput()
	for property, counted := range map[string]*regexp.Regexp{modelRuns: passed, modelWorlds: covered} {
		for _, m := range counted.FindAllSubmatch(out, -1) {
			n, _ := strconv.Atoi(string(m[1]))
			p.counts.Checked(property, n)
		}
	}
	if err != nil {
		return fmt.Errorf("%w:\n%s", err, out)
	}
	return nil
}
