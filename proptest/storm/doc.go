// Package storm proves what the observers of a Locker are promised: each event
// comes, comes once, and says what the callers were told.
//
// A run is one seed in a [testing/synctest] bubble, on a server in memory
// ([github.com/doclock/doclock/locktest]). Two programs with some goroutines each do
// at random all that acquires and leases can do, while requests and replies are lost
// and delayed, the server refuses commands or can't be reached, entries are broken,
// decodings fail and panic, observers are slow or panic, and a Locker is closed. Time
// is virtual, so a run of minutes takes a second, and each duration is exact.
//
// Each call has a value of its own in its context. The events carry it, and so do
// the commands that a monitor of the driver sees. At the end a ledger compares three
// records: what the callers were told, what the observers were told, and what was
// sent. The rules of the ledger are those of the doc comments of doclock.Event,
// doclock.EventKind and doclock.OnEvent, and use none of the library's own code.
//
// A seed draws the same calls and faults each time. The scheduler may order what
// happens at the same instant in another way.
package storm
