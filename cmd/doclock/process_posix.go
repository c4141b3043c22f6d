//go:build unix && !linux

package main

import "syscall"

// killWithParent does nothing: only Linux (and FreeBSD, by other means) can do
// it. The command goes on after a kill -9 of this process.
func killWithParent(*syscall.SysProcAttr) {}
