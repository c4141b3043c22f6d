// Package adjust makes options that only tests have: clocks that are set by hand, and
// durations that the options of package doclock refuse or don't have.
package adjust

import (
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
)

// Locker makes an option of a Locker.
func Locker(change func(*engine.Config)) doclock.Option { return locker{change: change} }

// WaitTTL makes the option for how long a waiting entry lives after each confirm. Users
// have the default.
func WaitTTL(d time.Duration) doclock.Option {
	return Locker(func(c *engine.Config) { c.WaitTTL = d })
}

// Acquire makes an option of an acquire.
func Acquire(change func(*engine.AcquireConfig)) doclock.AcquireOption {
	return acquire{change: change}
}

type locker struct {
	doclock.Option // is nil: it stands for the unexported method
	change         func(*engine.Config)
}

// ApplyLocker implements option.Locker.
func (l locker) ApplyLocker(c *engine.Config) error {
	l.change(c)
	return nil
}

type acquire struct {
	doclock.AcquireOption // as above
	change                func(*engine.AcquireConfig)
}

// ApplyAcquire implements option.Acquire.
func (a acquire) ApplyAcquire(c *engine.AcquireConfig) error {
	a.change(c)
	return nil
}
