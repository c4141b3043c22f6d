package doclock

import (
	"fmt"
	"reflect"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// AcquireOption changes how one acquire works.
type AcquireOption func(*engine.AcquireConfig) error

// ID is the filter for the document with this _id: bson.D{{"_id", id}}.
func ID(id any) bson.D { return bson.D{{Key: "_id", Value: id}} }

// Into decodes the document as of the grant into target, a non-nil pointer,
// with the collection's registry and in the same command. The lock field is
// left out, so that saving the document back can't bring an old lock back. It
// is decoded in the caller's goroutine. If that fails, the lock is released and
// the error returned; if it panics, the lock is released too.
func Into(target any) AcquireOption {
	return func(c *engine.AcquireConfig) error {
		if v := reflect.ValueOf(target); v.Kind() != reflect.Pointer || v.IsNil() {
			return fmt.Errorf("%w: Into got a %T; give a non-nil pointer", ErrInvalidArgument, target)
		}
		c.Into = target
		return nil
	}
}

// MaxWait bounds how long an Acquire or a Do waits for the lock, and nothing
// else: the context bounds the work that follows too. 0 is one try, as
// TryAcquire's. When the wait is over, the error is an [ErrNotAcquired], and an
// [ErrConflict] that names who is in the way, as far as this process knows.
// TryAcquire and Enqueue don't wait, and refuse this option.
func MaxWait(d time.Duration) AcquireOption {
	return func(c *engine.AcquireConfig) error {
		if d < 0 {
			return fmt.Errorf("%w: MaxWait is %v; give 0 for one try, or more", ErrInvalidArgument, d)
		}
		c.MaxWait = &d
		return nil
	}
}
