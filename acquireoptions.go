package doclock

import (
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// ID is the filter for the document with this _id: bson.D{{"_id", id}}. A filter
// demands an equal _id if it has this at its top level, alone or beside other
// fields.
func ID(id any) bson.D { return bson.D{{Key: "_id", Value: id}} }

// Into decodes the document, as of the grant, into target, a non-nil pointer, and
// replaces its value: nothing of before stays, unless the target decodes itself. It
// sends nothing more, and uses the collection's registry. The lock field is left
// out, so that saving the document back can't bring an old lock back. The caller's
// goroutine decodes. If that fails, the acquire returns the error and releases the
// lock in the background; if it panics, the lock is released too. Until that release
// is executed, the lock keeps others out.
func Into(target any) AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) error {
		if v := reflect.ValueOf(target); v.Kind() != reflect.Pointer || v.IsNil() {
			return fmt.Errorf("%w: Into got a %T; give a non-nil pointer", ErrInvalidArgument, target)
		}
		c.Into = target
		return nil
	})
}

// MaxWait bounds how long an Acquire or a Do waits for the lock. It doesn't bound
// the work that follows, as ctx does. When the wait is over, the error is an
// [ErrNotAcquired], and an [ErrConflict] too if this process knows who is in the
// way.
//
// 0 is one try, as by TryAcquire: it lasts for an [AttemptTimeout] at most, whatever
// the server does. A negative d is refused. So is the
// option where nothing waits or ctx alone bounds the wait: by TryAcquire, Enqueue,
// Resume and Lead.
func MaxWait(d time.Duration) AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) error {
		if d < 0 {
			return fmt.Errorf("%w: MaxWait is %v; give 0 for one try, or more", ErrInvalidArgument, d)
		}
		c.MaxWait = &d
		return nil
	})
}

// Sort says which document an acquire means if its filter matches several: the first
// by these keys, as bson.D{{"priority", -1}, {"_id", 1}}. Each key is a field with 1
// or -1, or with bson.D{{"$meta", "textScore"}}. Give a bson.D or a bson.Raw; a map
// may have one key only, because a map has no order. Without Sort the server
// chooses. If the filter demands an equal _id, the keys are not sent.
//
// Without [SkipLocked], an acquire decides for one document: the first that matches,
// locked or not. TryAcquire is refused if that one is locked, and Acquire waits for
// that one, even if others that match are free or become free.
func Sort(keys any) AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) (err error) {
		c.Sort, err = sortKeys(keys)
		return err
	})
}

// SkipLocked makes an acquire a claim: it takes any document that matches the filter
// and is free for the tag. So it takes the next job of a queue, as SELECT … FOR
// UPDATE SKIP LOCKED takes the next row. At the grant, by the server's clock, the
// document is free and matches.
//
//	lease, err := locks.TryAcquire(ctx, bson.M{"state": "pending"}, doclock.SkipLocked(),
//		doclock.Sort(bson.D{{"priority", -1}}), doclock.Into(&job))
//
// If none is free, TryAcquire returns [ErrNotFound]: the server has said so. Acquire
// and Do wait until one is free, also if none matches yet. They look again soon after
// each release by the same Locker, and after pauses that grow from some milliseconds
// to a second. Those with the same filter, keys and tag look together.
//
// An empty filter means any document of the collection.
//
// A claim sends one command, for the first document by Sort that matches and is free,
// and one or two more if nothing is found. The server passes the locked documents in
// front one by one: see docs/jobs.md.
//
// The order is that in which the server executes the commands: a document is overtaken
// by those that are claimed at the same moment. If jobs must be done in order, have
// one worker.
//
// A claim passes over a document that can't take the lock, with an [EventSkipped]:
// the entry would make it larger than the server's 16 MB, or a validator refuses the
// entry. The Locker doesn't try it again for a minute. A claim that has met one ends
// with the server's error if nothing else is free, or if it meets more than 256. A
// document that a transaction has locked for longer than an [AttemptTimeout] is passed
// over by that claim, unless that is all the time it has.
//
// A document whose lock field is foreign ([ErrForeignLock]) is not free, nor is one
// that [HoldAtLeast] keeps others out of. Enqueue refuses SkipLocked, because its
// place is in the queue of one document. A Locker with [Upsert] refuses it too. With
// [ShardKey] a read shows the document first, and asks all shards unless the filter
// names the shard key. A claim that has lost races then takes one of the first 64.
func SkipLocked() AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) error {
		c.SkipLocked = true
		return nil
	})
}

// sortKeys encodes the keys of a Sort.
func sortKeys(keys any) (bson.Raw, error) {
	refuse := func(what string) (bson.Raw, error) {
		return nil, fmt.Errorf(`%w: Sort got %s; give ordered keys, as bson.D{{"priority", -1}, {"_id", 1}}`, ErrInvalidArgument, what)
	}
	if v := reflect.ValueOf(keys); v.Kind() == reflect.Map && v.Len() > 1 {
		return refuse("a map with several keys, which has no order")
	}
	doc, err := bson.Marshal(keys)
	if err != nil {
		return refuse(fmt.Sprintf("a %T that can't be encoded (%v)", keys, err))
	}
	elements, err := bson.Raw(doc).Elements()
	if err != nil {
		return refuse(fmt.Sprintf("a malformed document (%v)", err))
	}
	if len(elements) == 0 {
		return refuse("no keys")
	}
	seen := map[string]bool{}
	for _, e := range elements {
		key := e.Key()
		switch {
		case key == "" || strings.HasPrefix(key, "$"):
			return refuse(fmt.Sprintf("the key %q, which names no field", key))
		case seen[key]:
			return refuse(fmt.Sprintf("the key %q twice", key))
		case !isDirection(e.Value()):
			return refuse(fmt.Sprintf("the key %q with %v", key, e.Value()))
		}
		seen[key] = true
	}
	return doc, nil
}

// isDirection reports whether a key's value is 1, -1 or {$meta: …}.
func isDirection(v bson.RawValue) bool {
	if doc, ok := v.DocumentOK(); ok {
		elements, err := doc.Elements()
		return err == nil && len(elements) == 1 && elements[0].Key() == "$meta"
	}
	f, ok := v.AsFloat64OK()
	return ok && (f == 1 || f == -1)
}

// HoldAtLeast keeps others out for at least d after the grant, even if the lease is
// released before, or its holder crashes. Several machines may start a job at the
// same tick, and the job may take a few milliseconds. With HoldAtLeast it runs once
// for each tick: a machine whose clock is late finds the document locked.
//
// The grant writes the end of that time into the entry, by the server's clock and
// with the [ClockTolerance] added. Until then each release of the lock, also one by
// [Lease.UpdateAndRelease], leaves a remainder of the entry. Nobody holds the
// remainder. It blocks others as a held entry does, and expires at that time;
// [Holder] shows it. Only [Lease.Delete] ends it earlier, with the document. The
// lease itself ends like any other: a holder that works for longer than its TTL
// needs [Lease.KeepAlive].
//
// An acquire that returns no lease leaves no remainder. A lock that may leave one is
// not handed over to a waiter of this process: the waiter asks for itself.
//
// d is at least 0, which is the same as no option, and at most [MaxTTL]. It is
// rounded up to whole milliseconds. HoldAtLeast is refused for a tag of
// [ShareInProcess].
func HoldAtLeast(d time.Duration) AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) error {
		if err := within("HoldAtLeast", d, 0, MaxTTL); err != nil {
			return err
		}
		c.Terms.Least = (d + time.Millisecond - 1).Truncate(time.Millisecond) // d is too small to overflow
		return nil
	})
}
