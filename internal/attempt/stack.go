package attempt

import "runtime"

// commandStack makes a new goroutine's stack 32 KiB. A command needs that much
// on its way through the driver, whose server selectors pass large structs by
// value.
const commandStack = 16 << 10

// growStack grows the goroutine's stack at once. A goroutine begins with 2 to 8
// KiB. On its first command it would double that several times, deep in the
// driver, and each doubling moves all those frames. A command in a goroutine of
// its own took 1.045 times as long as in its caller's, and 1.02 times with a
// stack that is grown before (BenchmarkRun; Go 1.26). CockroachDB does the same
// for its request handlers (pkg/util/growstack).
//
//go:noinline
func growStack() {
	var room [commandStack]byte
	runtime.KeepAlive(&room)
}
