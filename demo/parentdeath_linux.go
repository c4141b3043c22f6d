package main

import (
	"os/exec"
	"syscall"
)

// killWithParent makes the kernel kill the child when this process ends in any way, even if the child is stopped.
func killWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
