//go:build !linux

package main

import "os/exec"

// killWithParent does nothing here: a worker ends when its input ends.
func killWithParent(*exec.Cmd) {}
