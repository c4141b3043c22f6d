package oneline_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/doclock/doclock/internal/oneline"
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
	if got, want := oneline.Because(refused, conflict).Error(), "doclock: not acquired: conflict"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, is := range []error{refused, conflict, context.DeadlineExceeded} {
		if !errors.Is(err, is) {
			t.Errorf("it is not %q", is)
		}
	}
}
