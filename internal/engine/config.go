package engine

import (
	"cmp"
	"sync/atomic"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Terms are what one acquire asks for its entry, or, of a Locker, what an acquire gets
// that asks for none. The zero Terms of an acquire ask for nothing. Durations are
// whole milliseconds.
type Terms struct {
	TTL   time.Duration // of the entry once it is held; 0 is the Locker's
	Owner string        // "" is the Locker's
	Least time.Duration // others are kept out for that long after the grant, whatever the holder does; 0 is none
	Most  time.Duration // the lease ends that long after the grant, whatever the holder does; 0 is none
}

// Config holds the options of a Locker. Durations are whole milliseconds, which
// is the server's precision.
type Config struct {
	Terms                                   // of an acquire that asks for none of its own
	TagTTL         map[string]time.Duration // by tag, where it differs from the TTL
	WaitTTL        time.Duration            // of a waiting entry, in tests; 0 means min(TTL, DefaultWaitTTL)
	Tolerance      time.Duration            // added to what the server stores
	AttemptTimeout time.Duration            // of one attempt; 0 means min(TTL/3, DefaultAttemptTimeout)
	RetryLimit     time.Duration            // of failures that pass; 0 means DefaultRetryLimit
	PollInterval   time.Duration            // the longest pause between two asks of a waiter; 0 means DefaultPollInterval
	Field          string
	ShardKey       []string
	Upsert         bool
	Shared         []string // tags whose holders in one process may have one entry in common
	Observers      []any    // each a func(context.Context, doclock.Event), of a package that imports this one

	// Now is the server's time, set by hand in tests; nil means $$NOW.
	Now func() time.Time

	// Clock replaces this machine's clocks in tests; nil means the real ones.
	Clock func() Reading

	start       time.Time  // of the engine: its monotonic readings count from there
	suspensions *suspended // nil means those of this machine
}

// AcquireConfig holds the options of one acquire.
type AcquireConfig struct {
	Into    any            // a pointer for the document as of the grant, or nil
	MaxWait *time.Duration // nil where the context alone bounds the wait
	Terms   Terms

	TakeOver   []Entry  // the entries that it ends, by id and fencing token, or nil
	SkipLocked bool     // take any document that matches and is free
	Sort       bson.Raw // which of the documents that match comes first, or nil
	Leads      bool     // it is a Lead's: a shutdown ends its function at once
}

// Option is a doclock.Option.
type Option func(*Config) error

// ApplyLocker implements doclock.Option.
func (o Option) ApplyLocker(c *Config) error { return o(c) }

// AcquireOption is a doclock.AcquireOption.
type AcquireOption func(*AcquireConfig) error

// ApplyAcquire implements doclock.AcquireOption.
func (o AcquireOption) ApplyAcquire(c *AcquireConfig) error { return o(c) }

// Defaults of a Config. Those of the last two depend on the TTL.
const (
	DefaultTTL            = 10 * time.Second
	DefaultTolerance      = 500 * time.Millisecond
	DefaultField          = "lock"
	DefaultWaitTTL        = 5 * time.Second
	DefaultPollInterval   = time.Second
	DefaultRetryLimit     = 30 * time.Second // the driver's own
	DefaultAttemptTimeout = 10 * time.Second
)

// Lease returns the TTL of a held entry of this tag.
func (c *Config) Lease(tag string) time.Duration {
	if ttl, ok := c.TagTTL[tag]; ok {
		return ttl
	}
	return c.TTL
}

// LeaseBy returns the TTL of a held entry of this tag by an acquire's terms.
func (c *Config) LeaseBy(tag string, t Terms) time.Duration {
	ttl := cmp.Or(t.TTL, c.Lease(tag))
	if t.Most > 0 {
		ttl = min(ttl, t.Most)
	}
	return ttl
}

// Wait returns how long a waiting entry of this tag is kept between two
// confirms.
func (c *Config) Wait(tag string) time.Duration {
	if c.WaitTTL > 0 {
		return c.WaitTTL
	}
	return min(c.Lease(tag), DefaultWaitTTL)
}

// Poll returns the longest pause between two asks of a waiter.
func (c *Config) Poll() time.Duration { return cmp.Or(c.PollInterval, DefaultPollInterval) }

// Attempts bounds the attempts at one command.
type Attempts struct {
	Timeout    time.Duration // of each
	RetryLimit time.Duration // none begins later
	Pause      time.Duration // the longest one in the server's trouble; 0 means 10 s
}

// Attempt returns the bounds of a command for a lease with this TTL.
func (c *Config) Attempt(ttl time.Duration) Attempts {
	return Attempts{
		Timeout:    cmp.Or(c.AttemptTimeout, min(ttl/3, DefaultAttemptTimeout)),
		RetryLimit: cmp.Or(c.RetryLimit, DefaultRetryLimit),
	}
}

// Reading is one reading of this machine's clocks. The monotonic clock can't be set. It
// may stand still while the machine is suspended: on Linux that time is added. The wall
// clock goes on, but it can be set.
type Reading struct {
	Mono time.Duration
	Wall time.Time // with no monotonic part
}

// Less is the reading of a time before.
func (r Reading) Less(passed time.Duration) Reading {
	return Reading{Mono: r.Mono - passed, Wall: r.Wall.Add(-passed)}
}

// Clocks reads the clocks.
func (c *Config) Clocks() Reading {
	if c.Clock != nil {
		return c.Clock()
	}
	now := time.Now()
	return Reading{Mono: now.Sub(c.start) + cmp.Or(c.suspensions, &suspensions).total(), Wall: now.Round(0)}
}

// suspensions are those of this machine.
var suspensions = suspended{ahead: bootAhead}

// suspended is for how long a machine was suspended.
type suspended struct {
	ahead func() time.Duration // of the monotonic clock is the one that goes on; or less, if the process stops between the two
	most  atomic.Int64
}

// unlike is how far two clocks drift apart, in a reading, that go on together.
const unlike = 10 * time.Millisecond

// total never decreases: what was seen once counts.
func (s *suspended) total() time.Duration {
	ahead := s.ahead()
	for {
		most := s.most.Load()
		switch {
		case ahead < time.Duration(most)+unlike:
			return time.Duration(most)
		case s.most.CompareAndSwap(most, int64(ahead)):
			return ahead
		}
	}
}
