// Package lease is what becomes of a lock once it was granted: for how long it
// is valid, who holds it, what is written under it, and how it is released.
//
// # Holds and handles
//
// A [Hold] is an entry that stands in a document. A [Handle] is one holder's
// part of it, and what users know as a doclock.Lease. An exclusive lock is a
// hold with one handle. Where goroutines of one process share an entry, the
// hold has a handle for each of them. [Holds] are those of one Locker.
//
//	        New                renewed
//	granted ────►  valid ◄────────────┐
//	               │ │ └──────────────┘
//	               │ └── its time is up, or the server says that it is lost ──► over: ErrLost
//	               └──── the last holder releases ────────────────────────────► over: ErrReleased
//
//	over ──► releasing ──┬── released, lost or of unknown outcome: for good
//	          ▲          └── refused: a later Release tries again
//	          └──────────────┘
//
// A handle ends with its hold, or before it where other holders stay. A holder
// who leaves others sends nothing. The last holder releases the lock. Once the
// validity has ended, the first holder who leaves releases it for all, and the
// others have lost it: the server may have let somebody in beside them.
//
// # Who is trusted when
//
// Two things end a hold. The validity is this machine's: it ends a TTL after the
// last renewal was sent, before the server lets anybody in. The presence of the
// entry in the document is the server's verdict, which every command brings, and
// which wins: writes and releases are sent even after the end of the validity,
// and succeed where nobody was let in. Renewals are not: an ended hold is never
// revived. A hold that the server has declared lost stays lost, and nothing is
// written under it.
//
// The validity ends before a command is sent that removes the entry. That
// command may be executed though its answer is lost.
//
// # Commands
//
// A command outlives its caller: it runs to its end in a goroutine of the
// Locker's group, and a caller who gives up is told at once that its outcome is
// unknown, or that nothing was sent and nothing will be. A command of unknown
// outcome is repeated. What an earlier attempt may have done is then read from
// the document: a write's number in the entry, or the id in `done`.
//
// Gates put the commands in order. They are taken in this order: the handle's
// writing gate, by all of its writes and its release; the hold's renewing gate,
// by renewals and by what ends the hold; the hold's writing gate, by the writes
// of all holders and by what ends the hold.
//
// # Mutexes
//
// The wait queue's mutex and the [keeper]'s are taken before a hold's, which is
// taken before that of [Holds]. No command is sent, and no waiter told, under
// any of them.
package lease
