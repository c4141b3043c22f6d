// Package hammer lets many clients in several processes use few documents in
// real time, with every operation of the library and with faults of the
// network, of clocks and of processes. It records the events as a
// [history.History]. The observers of the lockers are audited: what they were told
// must agree with what the clients were told.
//
// The processes are the running program itself, started again: its main
// function, or TestMain, calls [Main] first.
package hammer
