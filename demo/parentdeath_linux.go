package main

import (
	"os/exec"
	"syscall"
)

// endWithUs has the kernel kill the child when we end, however we end, and even if it is stopped.
func endWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
