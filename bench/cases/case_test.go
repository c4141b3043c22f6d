package cases

import (
	"strings"
	"testing"
	"time"
)

func TestChoose(t *testing.T) {
	all := Plan([]time.Duration{time.Millisecond, 5 * time.Millisecond})
	for patterns, want := range map[string]string{
		"pair":             "pair",
		"rmw,hot64-5ms":    "rmw hot64-5ms",
		"idle,*-1ms":       "idle pair-1ms rmw-1ms hot64-1ms handoff-1ms claim-1ms",
		"pair*,pair":       "pair pair-1ms pair-5ms",
		"hot4,claim-?ms":   "hot4 claim-1ms claim-5ms",
		"nothing":          "error",
		"pair,nothing-1ms": "error",
		"[":                "error",
	} {
		chosen, err := Choose(all, patterns)
		var names []string
		for _, c := range chosen {
			names = append(names, c.Name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s instead of %s (%v)", patterns, got, want, err)
		}
	}
	if chosen, err := Choose(all, ""); err != nil || len(chosen) != len(all) {
		t.Errorf("%d of %d cases without a choice: %v", len(chosen), len(all), err)
	}
	if len(Plan(nil)) != len(cases) {
		t.Error("without latencies there are cases over a network")
	}
}
