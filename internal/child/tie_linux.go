package child

import (
	"os/exec"
	"syscall"
)

// Tie makes the kernel end a process when this one ends for any reason, also if it
// is stopped, and keeps a terminal's Ctrl-C from it.
func Tie(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setsid: true}
}
