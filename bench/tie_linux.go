package main

import (
	"os/exec"
	"syscall"
)

// tie makes the kernel end the child when this process ends, for any reason,
// and keeps a terminal's Ctrl-C from it: the child is stopped in order.
func tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}
