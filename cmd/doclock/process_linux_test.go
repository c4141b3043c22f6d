package main

import "testing"

// A process that is not buried has ended. One whose other threads work has not.
func TestProcessState(t *testing.T) {
	t.Parallel()
	const rest = " 77 77 0 -1 4194560 0 0 0 0 0 0 0 0 20 0 "
	for stat, want := range map[string]string{
		"78 (sh) Z 1" + rest + "1 0":        "Z",
		"78 (a) R 1 9 (b) Z 1" + rest + "1": "Z",
		"78 (java) Z 1" + rest + "2 0":      "R",
		"78 (sh) S 1" + rest + "1 0":        "S",
		"78 (sh) Z 1 76 77 0":               "",
		"":                                  "",
	} {
		if got := processState(stat, "77"); got != want {
			t.Errorf("%q is %q, want %q", stat, got, want)
		}
	}
}
