package main

import "syscall"

// The server keeps the entry for longer than the kernel's kill takes.
func init() {
	killWithParent = func(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
}
