package doclock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/doclock/doclock/internal/engine"
)

// Bounds of the durations. To hold a lease for longer than MaxTTL, renew it
// ([Lease.KeepAlive]). The server adds a TTL and the tolerance to its clock; within
// these bounds that can't overflow.
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
// wrong value is an [ErrInvalidArgument] that says what would be right.
type Option interface {
	ApplyLocker(*engine.Config) error
}

// AcquireOption changes how one acquire works. The acquire checks it before it sends
// anything. A wrong value is an [ErrInvalidArgument] that says what would be right.
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
// acquire. Default 10 s, at least [MinTTL], at most [MaxTTL], cut to whole
// milliseconds, the server's unit.
//
// The TTL of one acquire goes before [TagTTL], and TagTTL goes before the Locker's
// TTL. A waiting entry lives for less, the shorter of that TTL and 5 s after each
// confirm, so that a dead waiter delays the others only briefly. Under a tag of
// [ShareInProcess], an acquire with a TTL makes an entry of its own. An
// UpdateAndRelease with operators such as $set hands the lock over only to a waiter
// with the same TTL. Another waiter asks for itself, in one more command.
//
// A broken connection delays a renewal by half a second, and in rare cases by a
// whole one. A lease that is kept alive survives that with a TTL of 1 s on an idle
// machine, and with 2 s on a busy one too; docs/protocol.md has the measured table.
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
		ttls := maps.Clone(c.TagTTL)
		if ttls == nil {
			ttls = map[string]time.Duration{}
		}
		ttls[tag] = d.Truncate(time.Millisecond)
		c.TagTTL = ttls
		return within(fmt.Sprintf("TagTTL of %q", tag), d, MinTTL, MaxTTL)
	})
}

// ClockTolerance is added to the time that the server keeps an entry, but not to
// the time for which its lease is valid. Set it above the largest difference
// between the clocks of servers and routers, which [CheckServer] measures, plus
// any forward jump of one during a lease. Default 500 ms; it may be 0, and is at
// most [MaxClockTolerance].
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
// waits, give or take a half. The pauses begin with 2 ms, and grow with the time waited.
// A release by the same Locker and the end of an entry's time wake waiters earlier. In a
// document's queue those behind others ask less often. Default 1 s, from
// [MinPollInterval] to [MaxPollInterval].
func PollInterval(d time.Duration) Option {
	return engine.Option(func(c *engine.Config) error {
		c.PollInterval = d
		return within("PollInterval", d, MinPollInterval, MaxPollInterval)
	})
}

// Owner is a text for people: a worker, a job, a user. It stands in the document and
// in the [ConflictError] of others. No decision depends on it. It has 1 to 256 bytes
// of UTF-8 without NUL; default "host/pid/program". Under a tag of [ShareInProcess],
// an acquire with an Owner makes an entry of its own.
func Owner(name string) CommonOption {
	return commonOption(func(t *engine.Terms) error {
		t.Owner = name
		return ownerText(name)
	})
}

// HoldAtMost ends the lease at most d after its grant, whatever its holder does.
// Without it a holder that is stuck in a live process renews for ever, and keeps
// others out.
//
// The time counts as the validity does: from the send of the command that granted
// the lease, by this machine's monotonic clock and by its wall clock.
// [Lease.KeepAlive] and [Lease.Renew] extend the lease by no more than what is left
// of it. If d is less than the TTL, it is the TTL. At its end [Lease.Done] is
// closed, [Lease.Err] is an [ErrLost] that says so, and the contexts of KeepAlive
// and Do end. The server lets others in later, by a [ClockTolerance] and by the time
// that the last renewal was on its way. As after any loss by time, a write under the
// guard and a release still succeed until the server lets somebody in.
//
// It limits one lease. Lead campaigns again after it. In a DoAll, the end of one
// lease ends fn's context; the time also runs while the other leases are acquired. A
// [Lease.Downgrade] passes the limit on, counted from the first grant. A waiter that
// gets the lock by a handoff has its own limit or none. The entry of a token
// outlives its leases. So [Lease.Detach] refuses such a lease, Resume refuses the
// option, and a resumed lease has no limit, even if the Locker has one.
//
// d is at least [MinTTL], at most [MaxTTL], and no less than [HoldAtLeast]; it is
// cut to whole milliseconds. An acquire's HoldAtMost goes before the Locker's.
// HoldAtMost is refused for a tag of [ShareInProcess], and for a Locker with such
// tags.
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

// ShardKey names the fields of a sharded collection's key. The Locker reads their
// values from the first answer. Every later command for the lease names them beside
// the _id, so that it goes to one shard. An update that touches one of them is
// refused: the lease would not find the document any more.
//
// A filter should demand equality of the _id and of each of these fields, at its top
// level. For another filter, routers before MongoDB 7.0 return error 61, and later
// ones ask all shards. An acquire by such a filter is not repeated if its outcome is
// unknown, joins the wait queue of its process only after its first answer, and
// shares no entry.
func ShardKey(fields ...string) Option {
	return engine.Option(func(c *engine.Config) error {
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

// Upsert makes an acquire insert the document if there is none, for
// collections that hold nothing but locks. The filter must then demand an
// equal _id at its top level. Its other equalities become fields. If it has a
// condition that a document without the field doesn't meet (any but $ne, $nin and
// "$exists: false"), or one on the lock field, no document is made: the error is an
// [ErrNotFound]. A document that exists costs nothing more. A new one costs two
// commands more, because not every server can be trusted to insert and decide in one.
func Upsert() Option {
	return engine.Option(func(c *engine.Config) error {
		c.Upsert = true
		return nil
	})
}

// ShareInProcess lets the goroutines of one Locker share one entry in a document for
// each of these tags. So the lock's arrays grow with the processes, and not with the
// goroutines.
//
// The first holder acquires the entry. A later holder joins it without a command if
// the Locker has seen the lock in the last 200 ms, without an entry that the tag
// respects, and the acquire has no [Into]. Otherwise it sends one command, which
// renews the entry and returns an image of the lock. The last holder to leave releases the entry. Each holder has a
// lease of its own, with the same ID and Fence. If one holder among several calls
// UpdateAndRelease, it writes, and leaves the lock to the others.
//
// The cost: conflicting acquires of other processes are noticed up to 200 ms late. A
// writer that waits for overlapping readers waits that much longer, and each process
// with such readers sends five commands a second to look.
//
// Only a tag whose holders tolerate each other can be shared: see
// [relations.Rules.CheckShareable]. Any other tag is an [ErrInvalidArgument] with
// the reason. An Enqueue always makes an entry of its own, and so does an acquire
// whose filter demands more than an equal _id, or that has the option [TTL] or
// [Owner]. [HoldAtLeast] and [HoldAtMost] are refused for such a tag.
//
// What joins or leaves without a command learns nothing. If the entry is removed (by an
// operator, or with its document), or the program was stopped for longer than the TTL,
// a holder who leaves before the others gets nil though others were let in, and one may
// join for 200 ms beside them. Their guarded writes are refused.
func ShareInProcess(tags ...string) Option {
	return engine.Option(func(c *engine.Config) error {
		c.Shared = append(slices.Clone(c.Shared), tags...)
		return nil
	})
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
