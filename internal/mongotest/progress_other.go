//go:build !linux

package mongotest

import "os"

// goToolStderr is out of reach where there is no /proc.
func goToolStderr() *os.File { return nil }
