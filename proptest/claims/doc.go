// Package claims has the workers of several processes claim jobs by priority, with
// SkipLocked and Sort, while one process is killed. It checks that each job is done
// once, that a dead worker's job is claimed again after its entry has expired and
// not before, and that no worker is told that no job is free while one is.
//
// The workers say when each claim began and ended, by the clock of the machine
// that all processes and the server share. Nobody may set that clock meanwhile.
package claims
