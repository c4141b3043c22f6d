package storm_test

import (
	"flag"
	"testing"
	"time"

	"github.com/doclock/doclock/proptest/storm"
	"github.com/doclock/doclock/proptest/tally"
)

var (
	first = flag.Uint64("first", 1, "the first seed")
	seeds = flag.Int("seeds", 6, "how many seeds")
	long  = flag.Duration("for", time.Minute, "how long each run is, in virtual time")
)

// A short run; the full proof makes more. With -args -first 7 -seeds 1 it makes the run
// of seed 7.
func TestStorm(t *testing.T) {
	var counts tally.Tally
	storm.Run(t, storm.Config{First: *first, Seeds: *seeds, Long: *long}, &counts)
	var floors []tally.Floor
	if *seeds >= 6 {
		floors = storm.Floors(*seeds)
	}
	for _, failure := range counts.Failures(floors...) {
		t.Error(failure)
	}
	if err := counts.Table(t.Output()); err != nil {
		t.Error(err)
	}
}

// An observer that is stuck misses events: as many as it is told, and the right ones.
func TestFlood(t *testing.T) {
	var counts tally.Tally
	storm.Flood(t, *first, max(2, *seeds/4), &counts)
	for _, failure := range counts.Failures(tally.Floor{Kind: "outcome", Name: storm.SeenDropped, Least: 100}) {
		t.Error(failure)
	}
}
