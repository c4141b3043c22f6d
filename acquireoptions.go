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

// LeaseTTL is the TTL of this acquire's lease, in place of the Locker's [TTL] or
// [TagTTL], with the same bounds. The lease is valid for that time, renewed by it,
// and kept by the server for as long. How long a waiting entry keeps its place is
// still the Locker's [WaitTTL].
//
// Under a tag of [ShareInProcess] such an acquire makes an entry of its own. A
// classic update hands the lock over to a waiter of this process in its own
// command only between leases of one TTL. Otherwise the waiter asks for itself.
func LeaseTTL(d time.Duration) AcquireOption {
	return func(c *engine.AcquireConfig) error {
		c.Terms.TTL = d.Truncate(time.Millisecond)
		return within("LeaseTTL", d, MinTTL, MaxTTL)
	}
}

// OwnedBy is the owner of this acquire's entry, in place of the Locker's
// [Owner]: a worker, a job, a user. It is a text for people, and decides nothing.
// Under a tag of [ShareInProcess] such an acquire makes an entry of its own.
func OwnedBy(name string) AcquireOption {
	return func(c *engine.AcquireConfig) error {
		c.Terms.Owner = name
		return ownerText("OwnedBy", name)
	}
}

// HoldAtLeast keeps others out for at least d after the grant, even if the lease
// is released before, or its holder crashes. Several machines may start a job at
// the same tick, and the job may take a few milliseconds. With HoldAtLeast it runs
// once for each tick: a machine whose clock is late finds the document locked.
//
// The grant writes the end of that time into the entry, by the server's clock
// and with the [ClockTolerance] added. Until then each release of the lock, also
// one by [Lease.UpdateAndRelease], leaves a remainder of the entry. Nobody holds
// the remainder. It blocks others as a held entry does, and expires at that time;
// [Holder] shows it. Only [Lease.Delete] ends it earlier, with the document. The
// lease itself ends like any other: a holder that works for longer than its TTL
// needs [Lease.KeepAlive].
//
// An acquire that returns no lease leaves no remainder. A lock that may leave one
// is not handed over to a waiter of this process: the waiter asks for itself.
//
// d is at least 0, which is the same as no option, and at most [MaxTTL]. It is
// rounded up to whole milliseconds. HoldAtLeast is refused for a tag of
// [ShareInProcess].
func HoldAtLeast(d time.Duration) AcquireOption {
	return func(c *engine.AcquireConfig) error {
		if err := within("HoldAtLeast", d, 0, MaxTTL); err != nil {
			return err
		}
		c.Terms.Least = (d + time.Millisecond - 1).Truncate(time.Millisecond) // d is too small to overflow
		return nil
	}
}
