package engine

import (
	"time"
)

// Config is what the options of a Locker come to. Durations are whole
// milliseconds: the server keeps no finer ones.
type Config struct {
	TTL            time.Duration            // of a held entry
	TagTTL         map[string]time.Duration // by tag, where it differs from TTL
	WaitTTL        time.Duration            // of a waiting entry; 0 means min(TTL, DefaultWaitTTL)
	Tolerance      time.Duration            // added to what the server stores
	AttemptTimeout time.Duration            // of one command; 0 means min(TTL/3, MaxAttemptTimeout)
	Patience       time.Duration            // with a server that can't be reached; 0 means DefaultPatience
	Owner          string
	Field          string
	ShardKey       []string
	Upsert         bool
	Shared         []string // tags whose holders in one process may have one entry in common

	// Now drives the server's time by hand, in tests; nil means $$NOW.
	Now func() time.Time

	// Clock turns this machine's clocks, in tests; nil means the real ones.
	Clock func() Reading
}

// AcquireConfig is what the options of one acquire come to.
type AcquireConfig struct {
	Into    any            // a pointer for the document as of the grant, or nil
	MaxWait *time.Duration // nil where the context alone bounds the wait
}

// Defaults of a Config. Those of the last two depend on the TTL.
const (
	DefaultTTL        = 10 * time.Second
	DefaultTolerance  = 500 * time.Millisecond
	DefaultField      = "lock"
	DefaultWaitTTL    = 5 * time.Second
	DefaultPatience   = 30 * time.Second // the driver's own
	MaxAttemptTimeout = 10 * time.Second
)

// Lease is how long a held entry of this tag is kept for its holder.
func (c *Config) Lease(tag string) time.Duration {
	if ttl, ok := c.TagTTL[tag]; ok {
		return ttl
	}
	return c.TTL
}

// Wait is how long a waiting entry of this tag is kept between two confirms.
func (c *Config) Wait(tag string) time.Duration {
	if c.WaitTTL > 0 {
		return c.WaitTTL
	}
	return min(c.Lease(tag), DefaultWaitTTL)
}

// Attempt is how long one command for this tag may take.
func (c *Config) Attempt(tag string) time.Duration {
	if c.AttemptTimeout > 0 {
		return c.AttemptTimeout
	}
	return min(c.Lease(tag)/3, MaxAttemptTimeout)
}

// Reading is one look at both clocks of this machine. The monotonic one can't
// be set, but stands still while a machine is suspended; the wall clock goes
// on, but can be set.
type Reading struct {
	Mono time.Duration // since an arbitrary start
	Wall time.Time     // with no monotonic part
}

var start = time.Now()

// Clocks reads them.
func (c *Config) Clocks() Reading {
	if c.Clock != nil {
		return c.Clock()
	}
	now := time.Now()
	return Reading{Mono: now.Sub(start), Wall: now.Round(0)}
}
