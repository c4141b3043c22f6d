package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The server keeps the entry for longer than the kernel's kill takes.
func init() {
	killWithParent = func(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
	var next time.Time // a look costs some milliseconds
	unburied = func(group int) bool {
		if time.Now().Before(next) {
			return false
		}
		next = time.Now().Add(time.Second)
		files, _ := filepath.Glob("/proc/[0-9]*/stat")
		states := ""
		for _, file := range files {
			text, _ := os.ReadFile(file)
			states += processState(string(text), strconv.Itoa(group))
		}
		return states != "" && strings.Trim(states, "ZX") == ""
	}
}

// processState is the letter of a process's state, from its text in /proc, if it is of the group. A
// process whose first thread has ended runs while others do.
func processState(stat, group string) string {
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:]) // a name may have any character
	switch {
	case len(fields) < 18 || fields[2] != group:
		return ""
	case fields[17] != "1":
		return "R"
	default:
		return fields[0]
	}
}
