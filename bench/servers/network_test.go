package servers

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestParseLatencies(t *testing.T) {
	got, err := ParseLatencies("1ms, 500µs")
	if want := []time.Duration{time.Millisecond, 500 * time.Microsecond}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := ParseLatencies(""); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"1", "1ms,", "0s", "-1ms", "1ms,1ms"} {
		if _, err := ParseLatencies(wrong); err == nil || !strings.Contains(err.Error(), "-latency") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}
