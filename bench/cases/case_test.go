package cases

import (
	"strings"
	"testing"
)

func TestChoose(t *testing.T) {
	all := Plan()
	for patterns, want := range map[string]string{
		"pair":          "pair",
		"rmw,hot64-5ms": "rmw hot64-5ms",
		"idle,*-1ms":    "idle pair-1ms rmw-1ms hot64-1ms handoff-1ms claim-1ms",
		"nothing":       "error",
		"[":             "error",
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
}
