// Package hammer lets many clients in several processes hammer few documents
// on real time, with every operation of the library, under faults of the
// network, of clocks and of processes, and records what happened as a
// [history.History].
//
// The processes are the running program itself, started again: its main
// function, or TestMain, begins with [Main].
package hammer
