package faults_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/faults"
	"github.com/doclock/doclock/proptest/tally"
)

func TestMain(m *testing.M) {
	faults.Main()
	mongotest.Main(m)
}

func report(t *testing.T, counts *tally.Tally, floors ...tally.Floor) {
	t.Helper()
	for _, failure := range counts.Failures(floors...) {
		t.Error(failure)
	}
	if testing.Verbose() {
		if err := counts.Table(t.Output()); err != nil {
			t.Error(err)
		}
	}
}

func TestCancel(t *testing.T) {
	t.Parallel()
	var counts tally.Tally
	if err := faults.Cancel(t.Context(), mongotest.Database(t), mongotest.URI(t), &counts); err != nil {
		t.Fatal(err)
	}
	report(t, &counts,
		tally.Floor{Kind: "fault", Name: "context cancelled", Least: 40},
		tally.Floor{Kind: "fault", Name: "attempt executed when its call had ended", Least: 20})
}

func TestStorm(t *testing.T) {
	var counts tally.Tally
	if err := faults.Storm(t.Context(), mongotest.Database(t), mongotest.URI(t), 500*time.Millisecond, &counts); err != nil {
		t.Fatal(err)
	}
	report(t, &counts, tally.Floor{Kind: "fault", Name: "callers with tiny deadlines gave up", Least: 1000})
}

func TestCrash(t *testing.T) {
	var counts tally.Tally
	if err := faults.Crash(t.Context(), mongotest.Database(t), mongotest.URI(t), 3, &counts); err != nil {
		t.Fatal(err)
	}
	report(t, &counts,
		tally.Floor{Kind: "fault", Name: "holder killed (-9)", Least: 3},
		tally.Floor{Kind: "fault", Name: "holder stopped past its lease (SIGSTOP), and continued", Least: 3})
}

func TestTamper(t *testing.T) {
	t.Parallel()
	var counts tally.Tally
	if err := faults.Tamper(t.Context(), mongotest.Database(t), mongotest.URI(t), 1, &counts); err != nil {
		t.Fatal(err)
	}
	report(t, &counts, tally.Floor{Kind: "fault", Name: "garbage in the lock field", Least: 24})
}

func TestWaiters(t *testing.T) {
	var counts tally.Tally
	if err := faults.Waiters(t.Context(), mongotest.Database(t), mongotest.URI(t), 10, rand.Uint64(), &counts); err != nil {
		t.Error(err)
	}
	report(t, &counts,
		tally.Floor{Kind: "fault", Name: "server's clock set back", Least: 1},
		tally.Floor{Kind: "check", Name: "while nothing changes, waiters ask more and more rarely", Least: 1})
}

func TestRestart(t *testing.T) {
	t.Parallel()
	server := mongotest.Private(t)
	var counts tally.Tally
	if err := faults.Restart(t.Context(), server.Client(), server, 2, &counts); err != nil {
		t.Fatal(err)
	}
	report(t, &counts, tally.Floor{Kind: "fault", Name: "server killed (-9) and restarted", Least: 2})
}

func TestMessages(t *testing.T) {
	t.Parallel()
	var counts tally.Tally
	if err := faults.Messages(t.Context(), mongotest.Database(t), mongotest.URI(t), 1, &counts); err != nil {
		t.Fatal(err)
	}
	report(t, &counts,
		tally.Floor{Kind: "fault", Name: "retried command answered with its stored image", Least: 4},
		tally.Floor{Kind: "fault", Name: "connection reset in the middle of a request", Least: 4})
}

func TestVerdicts(t *testing.T) {
	t.Parallel()
	var counts tally.Tally
	if err := faults.Verdicts(t.Context(), mongotest.Database(t), mongotest.URI(t), 1, &counts); err != nil {
		t.Fatal(err)
	}
	report(t, &counts,
		tally.Floor{Kind: "fault", Name: "a loss that is known, and the release's first attempt disturbed", Least: 6},
		tally.Floor{Kind: "fault", Name: "a write whose reply is lost, and others' last writes before its repeat", Least: 16})
}

func TestBlocked(t *testing.T) {
	var counts tally.Tally
	if err := faults.Blocked(t.Context(), mongotest.Database(t), mongotest.URI(t), []int{8}, &counts); err != nil {
		t.Fatal(err)
	}
	report(t, &counts, tally.Floor{Kind: "fault", Name: "document blocked for all writes", Least: 8})
}
