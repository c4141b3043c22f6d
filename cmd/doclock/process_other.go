//go:build !unix

package main

import (
	"os"
	"time"
)

// canGroup: a command can have a process group of its own.
const canGroup = false

func prepare(*process) {}

// forward does nothing: the console sends Ctrl-C to the command, too.
func (p *process) forward(os.Signal) {}

// suspend is never called: there is no such signal.
func (p *process) suspend() {}

// terminate does nothing: this system has no gentle signal.
func (p *process) terminate() {}

func (p *process) kill() { _ = p.cmd.Process.Kill() }

func (p *process) endOthers(<-chan time.Time) {}

func exitCode(state *os.ProcessState) int { return state.ExitCode() }
