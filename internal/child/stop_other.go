//go:build !unix

package child

// CanStop says whether this system can stop a process and continue it.
const CanStop = false

// Stop does nothing on this system.
func (p *Process) Stop() {}

// Continue does nothing on this system.
func (p *Process) Continue() {}
