//go:build !linux

package engine

import "time"

// bootAhead is 0 where no clock is known that goes on in a suspend.
func bootAhead() time.Duration { return 0 }
