// Package option is how the options of package doclock reach those who apply them,
// without a name of it in doclock's own documentation.
package option

import "github.com/doclock/doclock/internal/engine"

// Locker is what each doclock.Option is.
type Locker interface {
	ApplyLocker(*engine.Config) error
}

// Acquire is what each doclock.AcquireOption is.
type Acquire interface {
	ApplyAcquire(*engine.AcquireConfig) error
}
