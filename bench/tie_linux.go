package main

import (
	"os/exec"
	"syscall"
)

// tie has the kernel end the child when we end, however we do, and keeps a
// terminal's Ctrl-C from it: it is stopped in order.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}
