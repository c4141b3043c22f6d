package main

import "syscall"

// killWithParent has the kernel kill the command when this process ends in any
// way. The server keeps the entry for longer than that takes.
func killWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGKILL }
