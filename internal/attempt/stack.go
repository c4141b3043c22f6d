package attempt

import "runtime"

// commandStack makes a new goroutine's stack one of 32 KiB: what a command
// needs on its way through the driver, whose server selectors pass large
// structs by value.
const commandStack = 16 << 10

// growStack grows the goroutine's stack at once. A goroutine begins with 2 to
// 8 KiB, and on its first command it would double that time and again, deep in
// the driver, where each doubling has all those frames to move: a command in a
// goroutine of its own took 1.045 times what it takes in its caller's, and
// 1.02 with a stack that is grown while there is nothing to move
// (BenchmarkRun; Go 1.26). CockroachDB does the same for its request handlers
// (pkg/util/growstack).
//
//go:noinline
func growStack() {
	var room [commandStack]byte
	runtime.KeepAlive(&room)
}
