package oneline_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/doclock/doclock/internal/oneline"
	"pgregory.net/rapid"
)

func TestJoin(t *testing.T) {
	lost, unknown := errors.New("doclock: lock lost"), errors.New("doclock: outcome unknown")
	refused := errors.New("payment refused")
	for name, c := range map[string]struct {
		errs []error
		want string
	}{
		"two of the library's":         {[]error{lost, unknown}, "doclock: lock lost; outcome unknown"},
		"the caller's first":           {[]error{refused, lost}, "payment refused; doclock: lock lost"},
		"the same twice":               {[]error{lost, lost}, "doclock: lock lost"},
		"wrapped, and the same":        {[]error{fmt.Errorf("%w: update", lost), lost}, "doclock: lock lost: update"},
		"the same, and wrapped":        {[]error{lost, fmt.Errorf("%w: update", lost)}, "doclock: lock lost: update"},
		"nil among them":               {[]error{nil, lost, nil}, "doclock: lock lost"},
		"joined by the caller, or two": {[]error{errors.Join(refused, context.Canceled), lost}, "payment refused; context canceled; doclock: lock lost"},
		"joined already":               {[]error{oneline.Join(context.Canceled, lost), lost}, "context canceled; doclock: lock lost"},
	} {
		err := oneline.Join(c.errs...)
		if err.Error() != c.want {
			t.Errorf("%s: %q, want %q", name, err, c.want)
		}
		for _, one := range c.errs {
			if one != nil && !errors.Is(err, one) {
				t.Errorf("%s: it is not %q", name, one)
			}
		}
	}
	if err := oneline.Join(nil, nil); err != nil {
		t.Error(err)
	}
	if err := oneline.Join(nil, lost); err != lost {
		t.Error("a single error is wrapped")
	}
}

func TestBecause(t *testing.T) {
	refused, conflict := errors.New("doclock: not acquired"), errors.New("doclock: conflict")
	err := oneline.Because(refused, oneline.Join(context.DeadlineExceeded, conflict))
	if got, want := err.Error(), "doclock: not acquired: context deadline exceeded; conflict"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := oneline.Because(refused, errors.New("a\x1b\nb")).Error(), `doclock: not acquired: a\u001b; b`; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if got, want := oneline.Because(refused, conflict).Error(), "doclock: not acquired: conflict"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	newer := fmt.Errorf("doclock: foreign: %w", errors.New("by a newer version of doclock: its v is 2"))
	if got, want := oneline.Because(refused, oneline.Join(context.Canceled, newer)).Error(), "doclock: not acquired: context canceled; foreign: by a newer version of doclock: its v is 2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, is := range []error{refused, conflict, context.DeadlineExceeded} {
		if !errors.Is(err, is) {
			t.Errorf("it is not %q", is)
		}
	}
}

// Nothing in it steers a terminal or begins a line, and JSON still says what it is.
func TestText(t *testing.T) {
	if got, want := oneline.Text("ä \"q\" a\x1b[2J\u009b\u202e\U000e0001\r\nb\xff"), `ä "q" a\u001b[2J\u009b\u202e\udb40\udc01\u000d\u000ab`+"\ufffd"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.String().Draw(t, "text")
		shown := oneline.Text(s)
		if strings.ContainsFunc(shown, func(r rune) bool { return !strconv.IsPrint(r) }) || oneline.Text(shown) != shown {
			t.Errorf("%q is shown as %q", s, shown)
		}
		encoded, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		var back string
		if err := json.Unmarshal([]byte(oneline.Text(string(encoded))), &back); err != nil || back != strings.ToValidUTF8(s, "\ufffd") {
			t.Errorf("the JSON of %q says %q: %v", s, back, err)
		}
	})
}
