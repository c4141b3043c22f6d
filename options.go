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

	MaxTTL            = 30 * 24 * time.Hour // of TTL, TagTTL, LeaseTTL and WaitTTL, and of HoldAtLeast
	MaxClockTolerance = time.Hour
	MaxAttemptTimeout = time.Minute
)

// Option changes how a Locker works. Options are checked where the Locker is
// made; a fault is an [ErrInvalidArgument] that says what would be right.
type Option func(*engine.Config) error

// TTL is how long a lease lasts unless it is renewed, counted from the moment
// when its acquire was sent. Default 10 s, at least [MinTTL], at most
// [MaxTTL], cut to whole milliseconds, the server's unit, as all durations are.
//
// A broken connection costs a lease that is kept alive half a second, in rare
// cases a whole one. With a TTL of 1 s it survives that on an idle machine, and
// with 2 s on a busy one too; docs/protocol.md has the measured table.
func TTL(d time.Duration) Option {
	return func(c *engine.Config) error {
		c.TTL = d.Truncate(time.Millisecond)
		return within("TTL", d, MinTTL, MaxTTL)
	}
}

// TagTTL is the TTL of one tag's leases, monglock's locktimeouts.
func TagTTL(tag string, d time.Duration) Option {
	return func(c *engine.Config) error {
		ttls := maps.Clone(c.TagTTL)
		if ttls == nil {
			ttls = map[string]time.Duration{}
		}
		ttls[tag] = d.Truncate(time.Millisecond)
		c.TagTTL = ttls
		return within(fmt.Sprintf("TagTTL of %q", tag), d, MinTTL, MaxTTL)
	}
}

// WaitTTL is how long a waiting entry keeps its place between two confirms.
// It is short, so that a waiter that died delays the others only briefly.
// Default min(TTL, 5 s), at least [MinTTL], at most [MaxTTL].
func WaitTTL(d time.Duration) Option {
	return func(c *engine.Config) error {
		c.WaitTTL = d.Truncate(time.Millisecond)
		return within("WaitTTL", d, MinTTL, MaxTTL)
	}
}

// ClockTolerance is added to the time that the server keeps an entry, but not to
// the time for which its lease is valid. It covers the differences and forward
// steps of the servers' clocks, in sum over one lease; in a sharded cluster, of
// the routers' clocks: see [CheckServer]. Default 500 ms; it may be 0, and is at
// most [MaxClockTolerance].
func ClockTolerance(d time.Duration) Option {
	return func(c *engine.Config) error {
		c.Tolerance = d.Truncate(time.Millisecond)
		return within("ClockTolerance", d, 0, MaxClockTolerance)
	}
}

// AttemptTimeout bounds one command to the server; one of unknown outcome is
// sent again. Default min(10 s, TTL/3), at most [MaxAttemptTimeout].
func AttemptTimeout(d time.Duration) Option {
	return func(c *engine.Config) error {
		c.AttemptTimeout = d
		return within("AttemptTimeout", d, time.Millisecond, MaxAttemptTimeout)
	}
}

// Owner is a text that people find in the document, and others in a
// [ConflictError]. Default "host/pid/program". [OwnedBy] names that of one acquire.
func Owner(name string) Option {
	return func(c *engine.Config) error {
		c.Owner = name
		return ownerText("Owner", name)
	}
}

// Field is the name of the top-level field that holds the lock. Default "lock".
func Field(name string) Option {
	return func(c *engine.Config) error {
		if name == "" || name == "_id" || strings.HasPrefix(name, "__doclock") || strings.ContainsAny(name, ".$\x00") {
			return fmt.Errorf("%w: Field is %q; give a top-level name without dot or dollar sign, other than _id", ErrInvalidArgument, name)
		}
		c.Field = name
		return nil
	}
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
	return func(c *engine.Config) error {
		for _, field := range fields {
			if field == "" || strings.ContainsAny(field, "$\x00") {
				return fmt.Errorf("%w: ShardKey has a field %q; give the names of the shard key's fields", ErrInvalidArgument, field)
			}
		}
		c.ShardKey = fields
		return nil
	}
}

// Upsert makes an acquire insert the document where there is none, for
// collections that hold nothing but locks. The filter must then demand an
// equal _id at its top level. A document that exists costs nothing more. A new
// one costs two commands more, because not every server can be trusted to insert
// and decide in one.
func Upsert() Option {
	return func(c *engine.Config) error {
		c.Upsert = true
		return nil
	}
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
// The cost: an acquire of another process that the tag respects is seen up to
// 200 ms late. A writer that waits for overlapping readers waits that much longer,
// and each process with such readers sends five commands a second to look.
//
// Only a tag whose holders tolerate each other can be shared: see
// [relations.Rules.CheckShareable]. Any other tag is an [ErrInvalidArgument] with
// the reason. An Enqueue always makes an entry of its own, and so does an acquire
// whose filter demands more than an equal _id, or that has the option [LeaseTTL]
// or [OwnedBy]. [HoldAtLeast] is refused for such a tag.
func ShareInProcess(tags ...string) Option {
	return func(c *engine.Config) error {
		c.Shared = append(slices.Clone(c.Shared), tags...)
		return nil
	}
}

func ownerText(option, name string) error {
	const longest = 256
	if name == "" || len(name) > longest || !utf8.ValidString(name) || strings.ContainsRune(name, 0) {
		return fmt.Errorf("%w: %s is %d bytes long; give 1 to %d, in UTF-8 and without NUL", ErrInvalidArgument, option, len(name), longest)
	}
	return nil
}

func within(name string, d, least, most time.Duration) error {
	if d < least || d > most {
		return fmt.Errorf("%w: %s is %v; give at least %v and at most %v", ErrInvalidArgument, name, d, least, most)
	}
	return nil
}
