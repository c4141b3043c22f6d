//go:build unix && !linux

package main

import "syscall"

// killWithParent does nothing: only Linux (and FreeBSD, by other means) can do
// it. The command goes on after a kill -9 of this process.
func killWithParent(*syscall.SysProcAttr) {}

// members are unknown: this system doesn't say what the command has started.
func (p *process) members() []int { return nil }

// alive reports whether a process of the command's own group has not ended.
func (p *process) alive() bool { return p.own && syscall.Kill(-p.cmd.Process.Pid, 0) == nil }
