package doclock

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Bounds of the durations. To hold a lease for longer than MaxTTL, renew it
// ([Lease.KeepAlive]).
const (
	// MinTTL is the shortest TTL. A broken connection delays a renewal by half a
	// second. A renewal begins when two thirds of the TTL are left.
	MinTTL = time.Second

	MaxTTL            = 30 * 24 * time.Hour // of TTL and TagTTL, of HoldAtLeast and HoldAtMost
	MaxClockTolerance = time.Hour
	MaxAttemptTimeout = time.Minute
	MinPollInterval   = 10 * time.Millisecond
	MaxPollInterval   = time.Minute
)

// Option changes how a Locker works. multilock.New and writelock.New check it. A
// wrong value is an [ErrInvalidArgument] that says what would be right. Of an option that is
// given twice the last counts, but OnEvent and LogTo, ShareInProcess and TagTTL add to those before.
type Option interface {
	ApplyLocker(*engine.Config) error
}

// AcquireOption changes how one acquire works, which checks it before it sends anything,
// as a Locker checks an [Option]. Of one that is given twice the last counts.
type AcquireOption interface {
	ApplyAcquire(*engine.AcquireConfig) error
}

// CommonOption is an option of one acquire, or of a Locker as the default of its
// acquires.
type CommonOption interface {
	Option
	AcquireOption
}

// commonOption sets one of the terms, which a Locker has as defaults.
type commonOption func(*engine.Terms) error

func (o commonOption) ApplyLocker(c *engine.Config) error         { return o(&c.Terms) }
func (o commonOption) ApplyAcquire(c *engine.AcquireConfig) error { return o(&c.Terms) }

// TTL is how long a lease lasts without a renewal, counted from the send of its
// acquire. Default 10 s, from [MinTTL] to [MaxTTL], cut to whole milliseconds. That of
// an acquire goes before [TagTTL], and TagTTL before the Locker's. A waiting entry lives
// for 5 s after each confirm, or for its tag's TTL if that is shorter. docs/protocol.md
// has measured which TTL survives a broken connection.
func TTL(d time.Duration) CommonOption {
	return commonOption(func(t *engine.Terms) error {
		t.TTL = d.Truncate(time.Millisecond)
		return within("TTL", d, MinTTL, MaxTTL)
	})
}

// TagTTL is the TTL of the leases of one tag of the rules, within the bounds of
// [TTL] (monglock's locktimeouts).
func TagTTL(tag string, d time.Duration) Option {
	return engine.Option(func(c *engine.Config) error {
		if c.TagTTL == nil {
			c.TagTTL = map[string]time.Duration{}
		}
		c.TagTTL[tag] = d.Truncate(time.Millisecond)
		return within(fmt.Sprintf("TagTTL of %q", tag), d, MinTTL, MaxTTL)
	})
}

// ClockTolerance is added to the time that the server keeps an entry, but not to
// the time for which its lease is valid. Set it above the largest difference
// between the clocks of servers and routers, which [CheckServer] measures, plus
// any forward jump of one during a lease. Default 500 ms, from 0 to
// [MaxClockTolerance].
func ClockTolerance(d time.Duration) Option {
	return engine.Option(func(c *engine.Config) error {
		c.Tolerance = d.Truncate(time.Millisecond)
		return within("ClockTolerance", d, 0, MaxClockTolerance)
	})
}

// AttemptTimeout bounds one attempt at a command. After it the attempt's outcome is
// unknown, and the command is sent again where that is safe. Default min(10 s,
// TTL/3), at least 1 ms, at most [MaxAttemptTimeout].
func AttemptTimeout(d time.Duration) Option {
	return engine.Option(func(c *engine.Config) error {
		c.AttemptTimeout = d
		return within("AttemptTimeout", d, time.Millisecond, MaxAttemptTimeout)
	})
}

// PollInterval is the longest pause between two asks of an Acquire, a Do or a claim that
// waits, give or take a half. The pauses grow with the time waited. A release by the same
// Locker wakes waiters earlier, and the end of an entry's time all but claims; those behind
// others in a document's queue ask less often. Default 1 s, from [MinPollInterval] to
// [MaxPollInterval].
func PollInterval(d time.Duration) Option {
	return engine.Option(func(c *engine.Config) error {
		c.PollInterval = d
		return within("PollInterval", d, MinPollInterval, MaxPollInterval)
	})
}

// Owner is a text for people: a worker, a job, a user. It stands in the document and
// in the [ConflictError] of others. No decision depends on it. It has 1 to 256 bytes
// of UTF-8 without NUL; default "host/pid/program".
func Owner(name string) CommonOption {
	return commonOption(func(t *engine.Terms) error {
		t.Owner = name
		return ownerText(name)
	})
}

// HoldAtMost ends the lease at most d after its grant, by this machine's clocks,
// whatever its holder does: its contexts end with an [ErrLost] that says so, and nothing
// renews it any more, so others are granted a TTL and the tolerance later at most. Without
// it a holder that is stuck in a live process keeps others out for ever. As after any loss
// by time, a guarded write and a release still succeed until the server grants somebody the lock.
//
// It counts for one lease: Lead campaigns again, and a [Lease.Convert] passes on what is
// left. [Lease.Detach] refuses such a lease, Resume the option, and a resumed lease has
// no limit. d is from [MinTTL] to [MaxTTL], no less than [HoldAtLeast], and cut to whole
// milliseconds; if it is less than the TTL, it is the TTL. It is refused for a tag of
// [ShareInProcess], and for a Locker with such tags.
func HoldAtMost(d time.Duration) CommonOption {
	return commonOption(func(t *engine.Terms) error {
		t.Most = d.Truncate(time.Millisecond)
		return within("HoldAtMost", d, MinTTL, MaxTTL)
	})
}

// Field is the name of the top-level field that holds the lock. Default "lock". It
// can't be _id, begin with "__doclock", or contain a dot or a dollar sign.
func Field(name string) Option {
	return engine.Option(func(c *engine.Config) error {
		if name == "_id" || !isName(name) {
			return fmt.Errorf("%w: Field is %q; give a top-level name without dot or dollar sign, other than _id", ErrInvalidArgument, name)
		}
		c.Field = name
		return nil
	})
}

// isName says that a field of a document may have the name, and that the library
// doesn't use it in its answers.
func isName(name string) bool {
	return name != "" && utf8.ValidString(name) && !strings.HasPrefix(name, "__doclock") && !strings.ContainsAny(name, ".$\x00")
}

// ShardKey names the fields of a sharded collection's key. The Locker reads their values
// from the first answer, and sends every later command to that shard. An update that
// touches one of them is refused. A filter should demand equality of the _id and of each
// of these fields: for another one, routers before MongoDB 7.0 return error 61, and later
// ones ask all shards. An acquire by such a filter isn't repeated if its outcome is
// unknown.
func ShardKey(fields ...string) Option {
	return engine.Option(func(c *engine.Config) error {
		if len(fields) == 0 {
			return fmt.Errorf("%w: ShardKey has no fields; give the names of the shard key's fields", ErrInvalidArgument)
		}
		for i, field := range fields {
			overlaps := func(other string) bool {
				return strings.HasPrefix(field+".", other+".") || strings.HasPrefix(other+".", field+".")
			}
			if slices.ContainsFunc(fields[:i], overlaps) || slices.ContainsFunc(strings.Split(field, "."), func(part string) bool { return !isName(part) }) {
				return fmt.Errorf("%w: ShardKey has a field %q; give the names of the shard key's fields, each once and none within another", ErrInvalidArgument, field)
			}
		}
		c.ShardKey = fields
		return nil
	})
}

// Upsert makes an acquire insert the document if there is none, in two commands more, for
// collections that hold nothing but locks. The filter must demand an equal _id at its top
// level. Its other equalities become fields. No document is made, and the error is an
// [ErrNotFound], if it has a condition that a document without the field doesn't meet (any
// but $ne, $nin and "$exists: false"), or one on the lock field.
func Upsert() Option {
	return engine.Option(func(c *engine.Config) error {
		c.Upsert = true
		return nil
	})
}

// ShareInProcess lets the callers of one Locker use one lease together for each of these
// tags. So the lock's arrays grow with the processes, and not with the goroutines. Only a tag
// whose holders tolerate each other can be shared: see CheckShareable of the
// rules.
//
// Callers who ask at the same time wait for one acquire. Later ones join its lease without a
// command, for 200 ms or a third of the TTL, unless its grant has shown an entry that the tag
// respects. The last one to leave releases it. Each has a lease of his own, with the same ID
// and Fence. An UpdateAndRelease beside others writes, and leaves the lock to them; Delete,
// Detach and Convert are refused.
//
// A writer of another process may wait 200 ms longer. A caller who leaves before the others
// sends nothing. So he doesn't learn that an operator or a [TakeOver] has ended the entry, or
// that the document was deleted.
//
// An acquire with [Into], [TTL] or [Owner], by a filter that demands more than an equal _id,
// of an Enqueue or of several leases has an entry of its own. [HoldAtLeast] and [HoldAtMost]
// are refused for such a tag.
func ShareInProcess(tags ...string) Option {
	return engine.Option(func(c *engine.Config) error {
		c.Shared = append(c.Shared, tags...)
		return nil
	})
}

// ID is the filter for the document with this _id: bson.D{{Key: "_id", Value: id}}. A filter
// demands an equal _id if it has this at its top level, alone or beside other
// fields. Give an id that comes from a client its type, such as string, first: a map from
// JSON may hold operators, and match any document.
func ID(id any) bson.D { return bson.D{{Key: "_id", Value: id}} }

// Into decodes the document, as of the grant, into target, a non-nil pointer, and
// replaces its value: nothing of before stays, unless the target decodes itself. It
// sends nothing more. The lock field is left out, so that saving the document back can't
// bring an old lock back. The caller's goroutine decodes; if that fails or panics, the
// lock is released in the background. After a failure claims pass over the document for a
// minute, as [SkipLocked] says.
func Into(target any) AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) error {
		if v := reflect.ValueOf(target); v.Kind() != reflect.Pointer || v.IsNil() {
			return fmt.Errorf("%w: Into got a %T; give a non-nil pointer", ErrInvalidArgument, target)
		}
		c.Into = target
		return nil
	})
}

// MaxWait bounds how long an Acquire or a Do waits for the lock, but not the work that
// follows, as ctx does. When the wait is over, the error is an [ErrNotAcquired], and an
// [ErrConflict] too if this process knows who is in the way. 0 is one try, as by
// TryAcquire. A negative d is refused, and the option by TryAcquire, Enqueue, Resume and
// Lead, where nothing waits or ctx alone bounds the wait.
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
// by these keys, as bson.D{{Key: "priority", Value: -1}, {Key: "_id", Value: 1}}. Each is a field with
// 1 or -1, or with bson.M{"$meta": "textScore"}. A map may have one key only, because a map has
// no order. Without Sort the server chooses.
//
// Without [SkipLocked], an acquire decides for one document, locked or not: TryAcquire is
// refused if that one is locked, and Acquire waits for it, whether or not others are free.
func Sort(keys any) AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) (err error) {
		c.Sort, err = sortKeys(keys)
		return err
	})
}

// SkipLocked makes an acquire a claim: it takes any document that matches the filter
// and is free for the tag by the server's clock, as SELECT … FOR UPDATE SKIP LOCKED takes
// the next row. An empty filter means any document of the collection.
//
//	lease, err := locks.TryAcquire(ctx, bson.M{"state": "pending"}, doclock.SkipLocked(),
//		doclock.Sort(bson.D{{Key: "priority", Value: -1}}), doclock.Into(&job))
//
// If none is free, TryAcquire returns [ErrNotFound]: the server has said so. Acquire
// and Do wait until one is free, also if none matches yet; they look again soon after
// each release by the same Locker. The order is that in which the server executes the
// commands. It passes the locked documents in front one by one: see docs/jobs.md.
//
// A Locker passes for a minute over a document that can't take the lock, because of the
// server's 16 MB or a validator, with an [EventSkipped]. A claim ends with the server's
// error if nothing else is free, or if it meets more than 256. It passes over a document
// that a transaction has locked for longer than an [AttemptTimeout], or a third of its own
// time if that is shorter: of [MaxWait], of ctx, or of TryAcquire's one AttemptTimeout.
//
// Enqueue refuses SkipLocked, and so does a Locker with [Upsert]. With [ShardKey] a read
// shows the document first.
func SkipLocked() AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) error {
		c.SkipLocked = true
		return nil
	})
}

// TakeOver makes an acquire end the entries of these Holders, of a [ConflictError] or a
// [LostError], in the command that grants the lock. So a user takes the lock back that he
// left in another tab, or has asked its holder for:
//
//	lease, err = locks.TryAcquire(ctx, doclock.ID(id), "write", doclock.TakeOver(conflict.Holders...))
//
// It is granted, or changes nothing: what else is in the way refuses it, and it never waits,
// whatever call it is given to. An entry counts with its ID and Fence alone; one that was
// released, granted or resumed since is not ended. In the place of a held one, the lock
// passes by those that wait.
//
// The former holder learns it as any loss, from its next command: an [ErrLost], or an
// [ErrOutcomeUnknown] if the request of its release got lost. Until its validity ends it may
// work elsewhere, as after [admin.Break]. If the call fails, and an attempt of it may have
// been executed, the error says that the entries may have ended.
//
// Enqueue, Resume, Lead and several leases refuse it, and so do [SkipLocked] and [MaxWait]. A
// lease of the call's own context stays in the way: [Lease.Convert] is for that.
//
// [admin.Break]: https://pkg.go.dev/github.com/doclock/doclock/admin#Break
func TakeOver(holders ...Holder) AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) error {
		c.TakeOver = []engine.Entry{}
		for i, h := range holders {
			if h.ID == uuid.Nil || h.Fence < 0 || h.Waiting != (h.Fence == 0) {
				return fmt.Errorf("%w: TakeOver: holder %d has ID %v, Fence %d, and waits: %t; give the Holders of an error, or an ID with its Fence",
					ErrInvalidArgument, i, h.ID, h.Fence, h.Waiting)
			}
			c.TakeOver = append(c.TakeOver, engine.Entry{ID: h.ID, Fence: h.Fence})
		}
		return nil
	})
}

// HoldAtLeast keeps others out for at least d after the grant, by the server's clock,
// even if the lease is released before, or its holder crashes. So a job that several
// machines start at the same tick runs once, also if it takes a few milliseconds.
//
// A release before that time leaves a remainder of the entry, which nobody holds and
// [Holder] shows; only a [Lease.Delete] (with the document), a [TakeOver] or a break ends it.
// The lease itself ends like any other. An acquire that returns no lease leaves no remainder.
//
// d is at most [MaxTTL], and rounded up to whole milliseconds; 0 is no option. It is
// refused for a tag of [ShareInProcess].
func HoldAtLeast(d time.Duration) AcquireOption {
	return engine.AcquireOption(func(c *engine.AcquireConfig) error {
		if err := within("HoldAtLeast", d, 0, MaxTTL); err != nil {
			return err
		}
		c.Terms.Least = (d + time.Millisecond - 1).Truncate(time.Millisecond) // d is too small to overflow
		return nil
	})
}

// sortKeys encodes the keys of a Sort.
func sortKeys(keys any) (bson.Raw, error) {
	refuse := func(what string) (bson.Raw, error) {
		return nil, fmt.Errorf(`%w: Sort got %s; give ordered keys, as bson.D{{Key: "priority", Value: -1}, {Key: "_id", Value: 1}}`, ErrInvalidArgument, what)
	}
	if v := reflect.Indirect(reflect.ValueOf(keys)); v.Kind() == reflect.Map && v.Len() > 1 {
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

func ownerText(name string) error {
	const longest = 256
	if name == "" || len(name) > longest || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: Owner is %d bytes long; give 1 to %d, in UTF-8 and without NUL", ErrInvalidArgument, len(name), longest)
	}
	return nil
}

func within(name string, d, least, most time.Duration) error {
	if d < least || d > most {
		return fmt.Errorf("%w: %s is %v; give at least %v and at most %v", ErrInvalidArgument, name, d, least, most)
	}
	return nil
}
