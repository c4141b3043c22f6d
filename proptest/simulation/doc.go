// Package simulation has many callers use all of the library at random, records what
// they call and are told, and has two checkers judge it.
//
//	runner (plan.go, acquires.go, tickets.go, leases.go)      operator (operator.go)
//	   │ draws a call: the arguments, the patience              │ breaks entries, reads
//	   ▼                                                        │ documents, makes deleted
//	call, acquire, holding (call.go) ◄── what callers are told  │ ones anew
//	   │                                                        │
//	   ▼                                                        │
//	program: Lockers, one client (program.go)                   │
//	   │   └─► observers ───────► heard events ──┐              │
//	   ▼                                         ▼              │
//	commands, by two monitors ──► wire.go ──► ledger*.go        │
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
// [locktest.NewCluster]. Primaries are deposed and write on, and what they have written is
// rolled back; clocks differ.
//
// On a server (server.go starts the processes, worker.go is one) time is real, and goes
// twenty times as fast as in memory. Several processes are stopped and killed, their
// clocks are wrong and jump, and network.go has the faults of their connections. The
// server may be killed, too; then time goes twice as fast only, so that leases outlive it.
// Only here a race inside the driver or the server can show. The processes are the running
// program itself: its main function, or TestMain, calls [Main] first.
//
// The two checkers share nothing. The history's decides from the server's images whether
// each caller was told the truth about the lock; it takes instants for intervals. The
// ledger compares what callers and observers were told, and what was sent, by the doc
// comments of doclock.Event, doclock.EventKind and doclock.OnEvent. In virtual time it
// also judges each time and duration, and how many commands an acquire has sent. It takes
// the value of each call from its context: the events carry it, and so do the commands.
package simulation
