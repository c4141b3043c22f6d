//go:build !unix

package main

import "os"

// canGroup: a command can have a process group of its own.
const canGroup = false

func hasTerminal() bool { return false }

func prepare(*process) {}

// forward does nothing: the console sends Ctrl-C to the command, too.
func (p *process) forward(os.Signal) {}

// suspend is never called: there is no such signal.
func (p *process) suspend() {}

// proceed is never called: nothing is told to end here.
func (p *process) proceed() {}

// terminate does nothing: this system has no gentle signal.
func (p *process) terminate() {}

func (p *process) kill() { _ = p.cmd.Process.Kill() }

// alive is false: nothing is known of what the command has started.
func (p *process) alive() bool { return false }

// dieOf does nothing: no signal ends a process here.
func dieOf(os.Signal) {}

func endedBy(*os.ProcessState) os.Signal { return nil }
