//go:build !unix

package main

import "context"

// play leaves the scene out: this system has no SIGSTOP.
func (s *stage) play(context.Context, func(line)) (story, error) {
	return story{LeftOut: "this system can't stop a process and continue it (SIGSTOP, SIGCONT)"}, nil
}
