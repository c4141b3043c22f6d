package engine

import (
	"syscall"
	"time"
	"unsafe"
)

// The clocks of clock_gettime(2).
const (
	clockMonotonic = 1
	clockBoottime  = 7 // the monotonic one, and the time for which the machine was suspended
)

// bootAhead is how far the boot clock is ahead of the monotonic one. The boot clock is read
// first: whatever comes between makes it less.
func bootAhead() time.Duration {
	boot, mono := clock(clockBoottime), clock(clockMonotonic)
	if boot == 0 || mono == 0 { // the system refuses the call
		return 0
	}
	return boot - mono
}

// clock is a raw call: in a bubble of testing/synctest the runtime's clock is another one.
func clock(id uintptr) time.Duration {
	var now syscall.Timespec
	if _, _, failed := syscall.RawSyscall(syscall.SYS_CLOCK_GETTIME, id, uintptr(unsafe.Pointer(&now)), 0); failed != 0 {
		return 0
	}
	return time.Duration(now.Nano())
}
