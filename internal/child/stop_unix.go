//go:build unix

package child

import "syscall"

// CanStop says whether this system can stop a process and continue it.
const CanStop = true

// Stop stops the process (SIGSTOP).
func (p *Process) Stop() { _ = p.cmd.Process.Signal(syscall.SIGSTOP) }

// Continue lets a stopped process go on (SIGCONT).
func (p *Process) Continue() { _ = p.cmd.Process.Signal(syscall.SIGCONT) }
