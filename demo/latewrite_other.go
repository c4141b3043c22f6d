//go:build !unix

package main

import "context"

// lateWrite is left out: this system has no SIGSTOP.
func (d *demo) lateWrite(context.Context, func(logEntry)) (lateWriteResult, error) {
	return lateWriteResult{LeftOut: "this system can't stop a process and continue it (SIGSTOP, SIGCONT)"}, nil
}
