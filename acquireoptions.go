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
// lock is handed over with a classic update in one command only between leases
// of the same TTL; else the update and the release of the lock are one command,
// and the waiter sends its own.
func LeaseTTL(d time.Duration) AcquireOption {
	return func(c *engine.AcquireConfig) error {
		c.Terms.TTL = d.Truncate(time.Millisecond)
		return within("LeaseTTL", d, MinTTL, MaxTTL)
	}
}

// OwnedBy is the owner of this acquire's entry, in place of the Locker's
// [Owner]: a worker, a job, a user. Like that it is a text for people, and
// decides nothing. Under a tag of [ShareInProcess] such an acquire makes an entry
// of its own.
func OwnedBy(name string) AcquireOption {
	return func(c *engine.AcquireConfig) error {
		c.Terms.Owner = name
		return ownerText("OwnedBy", name)
	}
}

// HoldAtLeast keeps others out for at least d after the grant, however early the
// lease is released, or whether its holder crashes. A job that several machines
// start at the same tick, and that is done within milliseconds, so runs once per
// tick: a machine whose clock is late finds the lock held.
//
// The grant writes the end of that time into the entry, by the server's clock
// and with the tolerance added. Until then a release (also one by UpdateAndRelease)
// leaves a remainder of the entry. The remainder is held by nobody, blocks others
// like a held entry, and expires at that time by itself: [Holder.AtLeast] shows it.
// Nothing ends it earlier, but for [Lease.Delete], which deletes it with the
// document. The lease itself ends as any other: d is not its TTL, and a holder that
// works for longer than the TTL still needs [Lease.KeepAlive].
//
// d is rounded up to whole milliseconds. It is not negative and at most [MaxTTL]; 0
// is as if the option were not given. It is refused for a tag of [ShareInProcess].
// The release of such a lease is not handed over to a waiter of this process.
func HoldAtLeast(d time.Duration) AcquireOption {
	return func(c *engine.AcquireConfig) error {
		if err := within("HoldAtLeast", d, 0, MaxTTL); err != nil {
			return err
		}
		c.Terms.Least = (d + time.Millisecond - 1).Truncate(time.Millisecond)
		return nil
	}
}
