package mongotest

import (
	"context"
	"errors"
	"strings"
	"testing"
)

func TestProgress(t *testing.T) {
	var text strings.Builder
	say := newProgress(&text)
	if err := say.step(t.Context(), "digging", func(context.Context) error { return nil }); err != nil {
		t.Error(err)
	}
	boom := errors.New("boom")
	if err := say.step(t.Context(), "filling", func(context.Context) error { return boom }); !errors.Is(err, boom) {
		t.Errorf("the error is: %v", err)
	}
	for _, words := range []string{"mongotest: digging …\n", "mongotest: digging: done in ", "mongotest: filling: failed after "} {
		if !strings.Contains(text.String(), words) {
			t.Errorf("it does not say %q:\n%s", words, text.String())
		}
	}
}
