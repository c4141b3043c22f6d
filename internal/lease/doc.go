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
// A hold's validity has three states:
//
//	granted ──► valid ──┬── its time is up, or the server says that it is lost ──► ErrLost
//	            ▲    │  └── the release is about to be sent ─────────────────────► ErrReleased
//	            └────┘
//	            renewed
//
// Its entry stands until it is released, whatever the validity:
//
//	standing ──► releasing ──┬── answered, or of unknown outcome ──► released for good
//	    ▲                    │
//	    └── refused, unsent ─┘
//
// A detach ends the hold and leaves the entry to the users of a token. Only its
// last holder detaches. After one of unknown outcome nothing but a release may
// follow: it ends the entry, detached or not.
//
// A downgrade suspends the hold from its send on: it is valid for nobody, and
// nobody joins. If it is refused, the hold goes on with the validity that it had.
// If it is granted, the hold ends, and the new entry is another hold. Only the last
// holder downgrades.
//
// A handle ends with its hold, or before it if other holders stay. As long as the
// hold is valid, only the last holder to leave releases it; the others leave
// without a command. Once the validity has ended, the first holder to leave
// releases the hold for all. The others have lost the lock: the server may have
// let somebody in beside them.
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
// The validity ends before a command is sent that removes the entry, or leaves it
// to others. That command may be executed though its answer is lost.
//
// # Commands
//
// A command outlives its caller: it runs to its end in a goroutine of the
// Locker's group, and a caller who gives up is told at once that its outcome is
// unknown, or that nothing was sent and nothing will be. A command of unknown
// outcome is repeated. What an earlier attempt may have done is then read from
// the document: a write's number in the entry, the id in `done`, or the key of a
// token.
//
// Gates put the commands in order. They are taken in this order: the handle's
// writing gate, by all of its writes and its release; the hold's renewing gate,
// by renewals and by what ends the hold; the hold's writing gate, by the writes
// of all holders and by what ends the hold.
//
// # Mutexes
//
// The wait queue's mutex and the [keeper]'s are taken before a hold's, which is
// taken before that of [Holds]. A gate's own is taken last. No command is sent,
// and no waiter is told, under any of them. An event for the observer is only put
// into its queue, whose mutex is taken after all these. The end of a hold cancels
// the contexts of KeepAlive under its mutex, and calls what AfterRelease was given.
//
// # Events
//
// The observer of a Locker is told of the leases that callers have got. A loss by
// time is told by the timer that ends the validity. All other ends are told by the
// verdict on the command that ends the lease, before its caller gets it.
package lease
