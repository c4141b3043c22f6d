package mongotest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
)

// These two numbers are the same on all Linux architectures of Go; package
// syscall lacks the names.
const (
	sysPidfdOpen  = 434
	sysPidfdGetfd = 438
)

// goToolStderr is the standard error of the `go` command that runs us, directly
// or through a wrapper; nil if there is none or it can't be opened.
func goToolStderr() *os.File {
	pid := os.Getppid()
	for range 5 {
		name, parent := ancestor(pid)
		if name == "go" {
			return stderrOf(pid)
		}
		if parent <= 1 {
			return nil
		}
		pid = parent
	}
	return nil
}

// ancestor reads a process's name and its parent's number.
func ancestor(pid int) (name string, parent int) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", 0
	}
	// pid (name) state parent …, where the name itself may have blanks and
	// brackets.
	open, end := bytes.IndexByte(stat, '('), bytes.LastIndexByte(stat, ')')
	if open < 0 || end < open {
		return "", 0
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) < 2 {
		return "", 0
	}
	parent, err = strconv.Atoi(string(fields[1]))
	if err != nil {
		return "", 0
	}
	return string(stat[open+1 : end]), parent
}

// stderrOf opens another process's standard error. A pipe or a terminal is
// simply opened again. A regular file must not be: we would write at our own
// offset, over the owner's output. To share the owner's offset takes a copy of
// its descriptor. The kernel gives that only to processes that may trace the
// owner; root may.
func stderrOf(pid int) *os.File {
	path := fmt.Sprintf("/proc/%d/fd/2", pid)
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		if file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOCTTY, 0); err == nil {
			return file
		}
	}
	pidfd, _, errno := syscall.Syscall(sysPidfdOpen, uintptr(pid), 0, 0)
	if errno != 0 {
		return nil
	}
	defer func() { _ = syscall.Close(int(pidfd)) }()
	fd, _, errno := syscall.Syscall(sysPidfdGetfd, pidfd, 2, 0)
	if errno != 0 {
		return nil
	}
	return os.NewFile(fd, "the go command's standard error")
}
