//go:build unix && !linux

package mongotest

import (
	"os/exec"
	"syscall"
)

// tie keeps a terminal's Ctrl-C from the child. Only Linux kills a child when
// its parent is killed: on other systems a kill -9 of the supervisor, or of a
// test with a private server, leaves a mongod running.
func tie(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} }

// mongod, the only server started without a container on these systems, has no children.
func descendants(int) []int { return nil }
func alive([]int) []int     { return nil }

func isolate(*exec.Cmd) {}

func listens(_, _ int) bool { return false }

func endWithUs(*exec.Cmd) {}
