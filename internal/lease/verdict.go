package lease

import (
	"errors"
	"reflect"
	"slices"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/oneline"
)

// verdicts are what the error of a call says of the call's own lock.
var verdicts = []error{doclock.ErrNotAcquired, doclock.ErrLost, doclock.ErrOutcomeUnknown}

// Verdict is the verdict in an error, or nil.
func Verdict(err error) error {
	for _, verdict := range verdicts {
		if errors.Is(err, verdict) {
			return verdict
		}
	}
	return nil
}

// Only is err with this verdict, or with none. The other verdicts in it are of
// other locks, or of a write: they stay in the text.
func Only(verdict, err error) error {
	for _, other := range verdicts {
		if other != verdict && errors.Is(err, other) {
			return &ofOne{err, verdict}
		}
	}
	return err
}

// Beside is the error of a call that has held a lock: what its function returned,
// and what the release says of the lock.
func Beside(returned, released error) error {
	return oneline.Join(Only(nil, returned), released)
}

// ofOne hides the verdicts of an error from [errors.Is] and [errors.As], all but one. It
// can't be unwrapped, because that would bring them back.
type ofOne struct {
	error
	verdict error
}

// Is is for [errors.Is].
func (o *ofOne) Is(target error) bool {
	for _, v := range verdicts {
		if target == v {
			return v == o.verdict
		}
	}
	return errors.Is(o.error, target)
}

// As is for [errors.As]. An error is hidden that says itself that it is a hidden verdict.
func (o *ofOne) As(target any) bool {
	if !errors.As(o.error, target) {
		return false
	}
	found := reflect.ValueOf(target).Elem()
	own, says := found.Interface().(interface{ Is(target error) bool })
	if says && slices.ContainsFunc(verdicts, func(v error) bool { return v != o.verdict && own.Is(v) }) {
		found.SetZero()
		return false
	}
	return true
}
