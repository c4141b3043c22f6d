package engine

import (
	"errors"
	"fmt"
	"log"
	"runtime/debug"
	"sync/atomic"
)

// This file is about code of the caller's that the driver calls, as the command monitor of
// his client. A command may run in a goroutine of the library, where he can't recover from
// a panic of that code, and where it would end his process.

// Panic is the failure of a command during which such code has panicked. The outcome is
// unknown. The panic is raised again, once, where the caller waits for the command.
type Panic struct {
	value  any
	raised atomic.Bool
}

func (p *Panic) Error() string { return fmt.Sprintf("panic in the client's own monitor: %v", p.value) }

// PanicIn is the panic in an error, or nil.
func PanicIn(err error) error {
	if p := (*Panic)(nil); errors.As(err, &p) {
		return p
	}
	return nil
}

// Raise panics with the value of a panic that is in the error, in the caller's goroutine,
// and else returns the error. A panic that was raised before is an error like others.
func Raise(err error) error {
	if p := (*Panic)(nil); errors.As(err, &p) && !p.raised.Swap(true) {
		panic(p.value)
	}
	return err
}

// guard calls the driver. It logs a panic with its stack, which is lost where the panic is
// raised again.
func guard(call func() error) (err error) {
	defer func() {
		if value := recover(); value != nil {
			log.Printf("doclock: panic in the client's own monitor: %v\n%s", value, debug.Stack())
			err = &Failure{err: &Panic{value: value}}
		}
	}()
	return call()
}
