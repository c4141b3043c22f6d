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

// Bounds of the durations. A lease that is needed for longer than MaxTTL is
// renewed: see [Lease.KeepAlive]. The server adds a TTL and the tolerance to its
// clock; within these bounds that can't overflow.
const (
	// MinTTL is the shortest TTL. After a broken connection the driver selects
	// no server for half a second. A lease that is kept alive has two thirds of
	// its TTL left when a renewal meets that.
	MinTTL = time.Second

	MaxTTL            = 30 * 24 * time.Hour // of TTL, TagTTL and WaitTTL, of HoldAtLeast and HoldAtMost
	MaxClockTolerance = time.Hour
	MaxAttemptTimeout = time.Minute
)

// Option changes how a Locker works. Options are checked where the Locker is
// made; a fault is an [ErrInvalidArgument] that says what would be right.
type Option interface{ ofLocker() }

// AcquireOption changes how one acquire works. It is checked before the acquire
// sends anything; a fault is an [ErrInvalidArgument] that says what would be right.
type AcquireOption interface{ ofAcquire() }

// CommonOption is for a Locker, as the default of its acquires, or for one
// acquire.
type CommonOption interface {
	Option
	AcquireOption
}

type lockerOption func(*engine.Config) error

func (lockerOption) ofLocker() {}

// ApplyLocker implements option.Locker.
func (o lockerOption) ApplyLocker(c *engine.Config) error { return o(c) }

type acquireOption func(*engine.AcquireConfig) error

func (acquireOption) ofAcquire() {}

// ApplyAcquire implements option.Acquire.
func (o acquireOption) ApplyAcquire(c *engine.AcquireConfig) error { return o(c) }

// commonOption sets one of the terms, which a Locker has as defaults.
type commonOption func(*engine.Terms) error

func (commonOption) ofLocker()  {}
func (commonOption) ofAcquire() {}

// ApplyLocker implements option.Locker.
func (o commonOption) ApplyLocker(c *engine.Config) error { return o(&c.Terms) }

// ApplyAcquire implements option.Acquire.
func (o commonOption) ApplyAcquire(c *engine.AcquireConfig) error { return o(&c.Terms) }

// TTL is how long a lease lasts unless it is renewed, counted from the moment
// when its acquire was sent. Default 10 s, at least [MinTTL], at most
// [MaxTTL], cut to whole milliseconds, the server's unit, as all durations are.
//
// The TTL of one acquire counts before [TagTTL], and that before the Locker's TTL.
// It is not how long a waiting entry keeps its place: that is [WaitTTL]. Under a
// tag of [ShareInProcess], an acquire with a TTL makes an entry of its own. A
// classic update hands the lock over to a waiter of this process in its own command
// only between leases of one TTL. Otherwise the waiter asks for itself.
//
// A broken connection costs a lease that is kept alive half a second, in rare
// cases a whole one. With a TTL of 1 s it survives that on an idle machine, and
// with 2 s on a busy one too; docs/protocol.md has the measured table.
func TTL(d time.Duration) CommonOption {
	return commonOption(func(t *engine.Terms) error {
		t.TTL = d.Truncate(time.Millisecond)
		return within("TTL", d, MinTTL, MaxTTL)
	})
}

// TagTTL is the TTL of one tag's leases, monglock's locktimeouts.
func TagTTL(tag string, d time.Duration) Option {
	return lockerOption(func(c *engine.Config) error {
		ttls := maps.Clone(c.TagTTL)
		if ttls == nil {
			ttls = map[string]time.Duration{}
		}
		ttls[tag] = d.Truncate(time.Millisecond)
		c.TagTTL = ttls
		return within(fmt.Sprintf("TagTTL of %q", tag), d, MinTTL, MaxTTL)
	})
}

// WaitTTL is how long a waiting entry keeps its place between two confirms.
// It is short, so that a waiter that died delays the others only briefly.
// Default min(TTL, 5 s), at least [MinTTL], at most [MaxTTL].
func WaitTTL(d time.Duration) Option {
	return lockerOption(func(c *engine.Config) error {
		c.WaitTTL = d.Truncate(time.Millisecond)
		return within("WaitTTL", d, MinTTL, MaxTTL)
	})
}

// ClockTolerance is added to the time that the server keeps an entry, but not to
// the time for which its lease is valid. Set it above the largest difference
// between the clocks of servers and routers, which [CheckServer] measures, plus
// any forward jump of one during a lease. Default 500 ms; it may be 0, and is at
// most [MaxClockTolerance].
func ClockTolerance(d time.Duration) Option {
	return lockerOption(func(c *engine.Config) error {
		c.Tolerance = d.Truncate(time.Millisecond)
		return within("ClockTolerance", d, 0, MaxClockTolerance)
	})
}

// AttemptTimeout bounds one command to the server; one of unknown outcome is
// sent again. Default min(10 s, TTL/3), at most [MaxAttemptTimeout].
func AttemptTimeout(d time.Duration) Option {
	return lockerOption(func(c *engine.Config) error {
		c.AttemptTimeout = d
		return within("AttemptTimeout", d, time.Millisecond, MaxAttemptTimeout)
	})
}

// Owner is a text that people find in the document, and others in a
// [ConflictError]: a worker, a job, a user. It decides nothing. Default
// "host/pid/program". Under a tag of [ShareInProcess], an acquire with an Owner
// makes an entry of its own.
func Owner(name string) CommonOption {
	return commonOption(func(t *engine.Terms) error {
		t.Owner = name
		return ownerText(name)
	})
}

// HoldAtMost ends the lease d after its grant at the latest, whatever its holder
// does. A holder that is stuck, and whose process goes on, would otherwise renew for
// ever, and keep others out.
//
// The time counts as the validity does: from the send of the command that granted
// the lease, by this machine's two clocks. Renewals ([Lease.KeepAlive],
// [Lease.Renew]) extend the lease by no more than what is left of it. If d is less
// than the TTL, it is the TTL. The lease then ends with an [ErrLost] that says so:
// [Lease.Done] is closed, and the contexts of KeepAlive and Do end. The server lets
// others in later, by a [ClockTolerance] and by the time that the last renewal was on
// its way. Until somebody is let in, the server's word counts, as after any
// loss by time: a write under the guard and a release succeed.
//
// It limits one lease. A Lead campaigns again after it. Of the leases of a DoAll it
// limits one, whose end ends fn's context; its time also runs while others are
// acquired. A [Lease.Downgrade] passes the limit on, counted from the first grant.
// A waiter that gets the lock by a handoff has its own limit or none. Such a lease
// refuses [Lease.Detach], and Resume refuses the option: the entry of a token outlives
// its leases. So a resumed lease has no limit, even if the Locker has one.
//
// d is at least [MinTTL] and at most [MaxTTL], in whole milliseconds, and no less
// than [HoldAtLeast]. That of one acquire counts before the Locker's. HoldAtMost is
// refused for a tag of [ShareInProcess], and for a Locker with such tags.
func HoldAtMost(d time.Duration) CommonOption {
	return commonOption(func(t *engine.Terms) error {
		t.Most = d.Truncate(time.Millisecond)
		return within("HoldAtMost", d, MinTTL, MaxTTL)
	})
}

// Field is the name of the top-level field that holds the lock. Default "lock".
func Field(name string) Option {
	return lockerOption(func(c *engine.Config) error {
		if name == "" || name == "_id" || strings.HasPrefix(name, "__doclock") || strings.ContainsAny(name, ".$\x00") {
			return fmt.Errorf("%w: Field is %q; give a top-level name without dot or dollar sign, other than _id", ErrInvalidArgument, name)
		}
		c.Field = name
		return nil
	})
}

// ShardKey names the fields of a sharded collection's key. Their values are
// read from the first answer. Every later command for the lease names them
// beside the _id, so that it goes to one shard. An update that touches one of
// them is refused: the lease would not find the document any more.
//
// A filter should demand equality of the _id and of each of these fields, at its
// top level. For another filter, routers before MongoDB 7.0 return error 61, and
// later ones ask all shards. An acquire by such a filter is not repeated if its
// outcome is unknown, doesn't join its process's wait queue before its first
// answer, and shares no entry.
func ShardKey(fields ...string) Option {
	return lockerOption(func(c *engine.Config) error {
		for _, field := range fields {
			if field == "" || strings.ContainsAny(field, "$\x00") {
				return fmt.Errorf("%w: ShardKey has a field %q; give the names of the shard key's fields", ErrInvalidArgument, field)
			}
		}
		c.ShardKey = fields
		return nil
	})
}

// Upsert makes an acquire insert the document if there is none, for
// collections that hold nothing but locks. The filter must then demand an
// equal _id at its top level. A document that exists costs nothing more. A new
// one costs two commands more, because not every server can be trusted to insert
// and decide in one.
func Upsert() Option {
	return lockerOption(func(c *engine.Config) error {
		c.Upsert = true
		return nil
	})
}

// ShareInProcess lets the goroutines of one Locker share one entry in a document
// for each of these tags. So the lock's arrays grow with the processes, and not
// with the goroutines.
//
// The first holder acquires the entry. A later holder joins it without a
// command, as long as the entry is young and nobody was seen whom the tag
// respects. Otherwise it sends one command, which renews the entry and returns
// an image of the lock. The last holder to leave releases the entry. Each holder
// has a lease of its own, with the same ID and Fence. An UpdateAndRelease of one
// holder among several writes, and leaves the lock to the others.
//
// The cost: conflicting acquires of other processes are noticed up to 200 ms
// late. A writer that waits for overlapping readers waits that much longer,
// and each process with such readers sends five commands a second to look.
//
// Only a tag whose holders tolerate each other can be shared: see
// [relations.Rules.CheckShareable]. Any other tag is an [ErrInvalidArgument] with
// the reason. An Enqueue always makes an entry of its own, and so does an acquire
// whose filter demands more than an equal _id, or that has the option [TTL]
// or [Owner]. [HoldAtLeast] and [HoldAtMost] are refused for such a tag.
func ShareInProcess(tags ...string) Option {
	return lockerOption(func(c *engine.Config) error {
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
