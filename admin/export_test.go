package admin

import "time"

// DrivenBy has a call's server go by a clock that a test sets by hand.
func DrivenBy(now func() time.Time) Option {
	return Option{set: func(c *config) error {
		c.engine.Now = now
		return nil
	}}
}
