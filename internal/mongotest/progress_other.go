//go:build !linux

package mongotest

import "os"

// goToolStderr can't be opened without /proc.
func goToolStderr() *os.File { return nil }
