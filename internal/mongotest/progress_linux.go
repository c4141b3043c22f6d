package mongotest

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"syscall"
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

// stderrOf opens another process's standard error, if that is a pipe or a
// terminal. In a regular file we would write at our own offset, over the owner's
// output.
func stderrOf(pid int) *os.File {
	path := fmt.Sprintf("/proc/%d/fd/2", pid)
	if info, err := os.Stat(path); err != nil || info.Mode().IsRegular() {
		return nil
	}
	file, err := os.OpenFile(path, os.O_WRONLY|syscall.O_NOCTTY, 0)
	if err != nil {
		return nil
	}
	return file
}
