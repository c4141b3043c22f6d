package proof

import (
	"context"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/faults"
	"github.com/doclock/doclock/proptest/hammer"
	"github.com/doclock/doclock/proptest/machine"
	"github.com/doclock/doclock/proptest/mutants"
	"github.com/doclock/doclock/proptest/storm"
	"github.com/doclock/doclock/proptest/tally"
)

var long = flag.Bool("long", false, "run the proof some thirty times as long")

const root = "../.." // of the project

func TestMain(m *testing.M) {
	faults.Main()
	hammer.Main()
	flag.Parse()
	mongotest.Main(m)
}

// size is the size of a run.
type size struct {
	modelRuns, modelSteps     int
	modelFull                 bool // the exhaustive search, to its full depth
	machineRuns, machineSteps int
	processes, clients        int // of the hammer
	operations                int
	eachFault                 int // the least number of times that each fault must fire
	seeds                     int // of storms of events
}

var (
	full  = size{10_000, 50, false, 1_000, 30, 2, 8, 5_000, 20, 60}
	atLen = size{1_000_000, 50, true, 20_000, 30, 4, 16, 5_000, 300, 2_000}
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
	if *long {
		p.size = atLen
	}
	db, uri := mongotest.Database(t), mongotest.URI(t)
	ctx := t.Context()

	// The model needs processors, the other parts mostly the server.
	var wg sync.WaitGroup
	wg.Go(func() { p.part("model", func() error { return p.model(ctx) }) })
	p.part("model against the server", func() error {
		machine.Engine(t, db, p.machineRuns/2, p.machineSteps, &p.counts)
		machine.API(t, db, p.machineRuns/2, p.machineSteps, &p.counts)
		return nil
	})
	p.part("a storm of events", func() error {
		first := uint64(p.begun.UnixNano())
		storm.Run(t, storm.Config{First: first, Seeds: p.seeds, Long: time.Minute}, &p.counts)
		storm.Flood(t, first, p.seeds/10, &p.counts)
		return nil
	})
	p.part("callers that give up", func() error {
		for range max(1, p.eachFault/25) { // each executes some forty attempts late
			if err := faults.Cancel(ctx, db, uri, &p.counts); err != nil {
				return err
			}
		}
		return nil
	})
	p.part("a storm of callers that give up", func() error {
		return faults.Storm(ctx, db, uri, time.Duration(p.eachFault)*50*time.Millisecond, &p.counts)
	})
	p.part("outside writers", func() error { return faults.Tamper(ctx, db, uri, (p.eachFault+3)/4, &p.counts) })
	p.part("messages", func() error { return faults.Messages(ctx, db, uri, (p.eachFault+3)/4, &p.counts) })
	p.part("verdicts", func() error { return faults.Verdicts(ctx, db, uri, (p.eachFault+5)/6, &p.counts) })
	p.part("blocked documents", func() error {
		numbers := []int{1, 3, 4, 6, 8, 16, 64}
		if !*long {
			numbers = numbers[2:5]
		}
		return faults.Blocked(ctx, db, uri, numbers, &p.counts)
	})
	p.part("waiters", func() error {
		return faults.Waiters(ctx, db, uri, 2*p.eachFault, uint64(p.begun.UnixNano()), &p.counts)
	})
	p.part("dead and stopped holders", func() error { return faults.Crash(ctx, db, uri, p.eachFault, &p.counts) })
	p.part("a killed server", func() error {
		server := mongotest.Private(t)
		return faults.Restart(ctx, server.Client(), server, p.eachFault, &p.counts)
	})
	p.part("histories", func() error { return p.histories(ctx, uri) })
	wg.Wait()
	p.part("mutants", func() error {
		t.Setenv("MONGODB_URI", uri)
		return mutants.RunAll(ctx, root, mutants.All(), &p.counts, os.Stdout)
	})

	fmt.Printf("\n%s\n", p.title())
	if err := p.counts.Table(os.Stdout); err != nil {
		t.Error(err)
	}
	for _, failure := range p.counts.Failures(p.floors()...) {
		t.Error(failure)
	}
}

// part runs one part, and prints its begin and its duration.
func (p *proof) part(name string, f func() error) {
	begun := time.Now()
	fmt.Printf("%6.0f s  %s …\n", time.Since(p.begun).Seconds(), name)
	err := f()
	fmt.Printf("%6.0f s  %s: %.0f s\n", time.Since(p.begun).Seconds(), name, time.Since(begun).Seconds())
	if err != nil {
		p.Errorf("%s: %v", name, err)
	}
}

func (p *proof) title() string {
	kind := "The proof"
	if *long {
		kind = "The long proof"
	}
	return fmt.Sprintf("%s, %s, %.0f minutes", kind, time.Now().UTC().Format("2006-01-02 15:04 UTC"), time.Since(p.begun).Minutes())
}

// rounds is the most rounds of hammering until each fault has fired often
// enough.
const rounds = 400

// histories hammers, and checks the histories: once without faults, and then
// with faults until each one has fired often enough.
func (p *proof) histories(ctx context.Context, uri string) error {
	defer hammer.Granted(&p.counts)
	operations := 0
	for round := range rounds {
		h, counts, err := hammer.Run(ctx, hammer.Config{
			URI:       uri,
			Processes: p.processes, ClientsPerProcess: p.clients,
			Operations: p.operations,
			Documents:  8,
			Seed:       uint64(p.begun.UnixNano()) + uint64(round),
			Faults:     round > 0,
		})
		if err != nil {
			return err
		}
		h.Check(counts)
		linearizable(h, counts, 20*time.Second)
		operations += p.operations
		p.counts.Merge(counts)
		fmt.Printf("%6.0f s    %d operations, rarest fault fired %d times\n", time.Since(p.begun).Seconds(), operations, p.rarest())
		if round > 0 && p.rarest() >= p.eachFault {
			return nil
		}
	}
	return nil
}

// atRandom are the faults that the hammer causes at random.
var atRandom = []string{
	hammer.FaultRequestLost, hammer.FaultReplyLost, hammer.FaultHeld, hammer.FaultStalled, hammer.FaultDelayed,
	hammer.FaultRepeated, hammer.FaultWriteConcern, hammer.FaultNoWrites, hammer.FaultLatency, hammer.FaultStopped,
	hammer.FaultKilled, hammer.FaultWrongClock, hammer.FaultJumpedClock, hammer.FaultCancelled, hammer.FaultCrashed, hammer.FaultPaused,
}

func (p *proof) rarest() int {
	least := -1
	for _, fault := range atRandom {
		if n := p.counts.Faults[fault]; least < 0 || n < least {
			least = n
		}
	}
	return least
}

// floors fail a proof that passed because it did nothing.
func (p *proof) floors() []tally.Floor {
	floors := hammer.Floors(p.operations)
	for _, fault := range append(atRandom,
		"context cancelled", "attempt executed when its call had ended", "callers with tiny deadlines gave up", "holder killed (-9)", "holder stopped past its lease (SIGSTOP), and continued", "server killed (-9) and restarted",
		"document replaced", "document deleted", "document deleted and inserted again", "lock field erased", "garbage in the lock field",
		"a loss that is known, and the release's first attempt disturbed", "a write whose reply is lost, and others' last writes before its repeat",
		"connection reset in the middle of a request", "retried command answered with its stored image",
	) {
		floors = append(floors, tally.Floor{Kind: "fault", Name: fault, Least: p.eachFault})
	}
	floors = append(floors, storm.Floors(p.seeds)...)
	floors = append(floors, tally.Floor{Kind: "fault", Name: "server's clock set back", Least: p.eachFault / 2})
	return append(floors, tally.Floor{Kind: "check", Name: modelRuns, Least: p.modelRuns})
}
