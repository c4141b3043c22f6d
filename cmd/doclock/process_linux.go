package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// The server keeps the entry for longer than the kernel's kill takes.
func init() {
	killWithParent = func(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
	unburied = func(group int) bool {
		states := statesOf(strconv.Itoa(group))
		return states != "" && strings.Trim(states, "ZX") == ""
	}
}

// statesOf are the letters of the states of a group's processes, as far as /proc shows them.
func statesOf(group string) (states string) {
	files, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		_, after, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ") // a name may have any character
		if fields := strings.Fields(after); len(fields) > 2 && fields[2] == group {
			states += fields[0]
		}
	}
	return states
}
