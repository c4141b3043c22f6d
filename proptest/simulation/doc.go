// Package simulation has many callers use all of the library at random, records what
// they call and are told, and has two checkers judge it.
//
//	runner (plan.go, acquires.go, leases.go)                  operator (operator.go)
//	   │ draws a call: the arguments, the patience              │ breaks entries, reads
//	   ▼                                                        │ documents, makes deleted
//	call, acquire, holding (call.go) ◄── what callers are told  │ ones anew
//	   │                                                        │
//	   ▼                                                        │
//	program: Lockers, one client (run.go)                       │
//	   │   └─► an observer ─────► heard events ──┐              │
//	   ▼                                         ▼              │
//	commands, by a monitor                 ledger.go            │
//	   │                  └─────► history.Recorder ──► package history
//	   ▼                                                        │
//	a server, with faults on the way ◄──────────────────────────┘
//
// There are three worlds, with the same callers.
//
// In memory (memory.go) a run is one seed in a [testing/synctest] bubble, on
// [github.com/doclock/doclock/locktest]: two programs, and faults.go: requests and
// replies are lost and delayed, the server refuses commands, one program or all can't
// reach it, leases are taken away. Time is virtual: a minute takes a second, and each
// duration is exact. A seed draws the same calls and faults each time; the scheduler may
// order what happens at the same instant in another way. outages.go cuts a program off
// at each step of some operations.
//
// On a replica set (cluster.go) time is virtual too, and the members are those of
// [locktest.ReplicaSet]. Primaries are deposed and write on, and what they have written is
// rolled back; clocks differ.
//
// On a server (server.go) time is real, and goes twenty times as fast as in memory. Several
// processes are stopped and killed, their clocks are wrong and jump, and their connections
// have faults. The server may be killed, too; then time goes twice as fast only, so that leases outlive it.
// Only here a race inside the driver or the server can show. The processes are the running
// program itself: its main function, or TestMain, calls [Main] first.
//
// The two checkers share nothing. The history's decides from the server's images whether
// each caller was told the truth about the lock; it takes instants for intervals. The
// ledger compares what callers and observers were told: no event contradicts a verdict, and
// no end is missing. It takes the value of each call from its context, which the events
// carry. In virtual time it also judges the times of leases. How many commands an event
// tells, and the words of each, the tests of multilock and internal/lease have.
package simulation
