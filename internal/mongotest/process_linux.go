package mongotest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// tie makes the kernel kill the child when this process ends, for any reason,
// and keeps a terminal's Ctrl-C from it.
func tie(cmd *exec.Cmd) {
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Pdeathsig = syscall.SIGKILL
	cmd.SysProcAttr.Setsid = true
}

// descendants are the children of a process, their children, and so on.
func descendants(pid int) []int {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	children := map[int][]int{}
	for _, entry := range entries {
		if child, err := strconv.Atoi(entry.Name()); err == nil {
			_, parent := ancestor(child)
			children[parent] = append(children[parent], child)
		}
	}
	var all []int
	for next := []int{pid}; len(next) > 0; next = next[1:] {
		all = append(all, children[next[0]]...)
		next = append(next, children[next[0]]...)
	}
	return all
}

// alive are the processes that still run: neither ended nor waiting for their
// parent to notice.
func alive(pids []int) []int {
	var still []int
	for _, pid := range pids {
		if _, err := os.Stat(fmt.Sprintf("/proc/%d/exe", pid)); err == nil {
			still = append(still, pid)
		}
	}
	return still
}

// isolate gives the child process numbers and shared memory of its own.
func isolate(cmd *exec.Cmd) {
	cmd.SysProcAttr.Cloneflags |= syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC
}

// endWithUs makes the kernel ask the child to end when this process ends, for
// any reason. The thread that starts the child must wait for it.
func endWithUs(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM} }

// listens reports whether this process listens on the port of the loopback
// address.
func listens(pid, port int) bool {
	sockets, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		return false
	}
	ours := map[string]bool{}
	fds, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
	if err != nil {
		return false
	}
	for _, fd := range fds {
		if target, err := os.Readlink(fd); err == nil {
			ours[target] = true
		}
	}
	// number: local-address remote-address state … … … … … inode, in hexadecimal; 0A is a listener's state.
	local := fmt.Sprintf("0100007F:%04X", port)
	for line := range strings.Lines(string(sockets)) {
		fields := strings.Fields(line)
		if len(fields) > 9 && fields[1] == local && fields[3] == "0A" && ours["socket:["+fields[9]+"]"] {
			return true
		}
	}
	return false
}
