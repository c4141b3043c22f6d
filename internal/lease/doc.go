// Package lease has what follows the grant of a lock: for how long it is valid, what is
// written under it, and how it is released. A [Lease] is an entry that stands in a
// document, and what users know as a doclock.Lease. [Leases] are those of one Locker.
//
// # States
//
// A lease has a phase: what its commands have come to.
//
//	            ┌────────── refused, or not sent ───────────┐
//	            ▼                                           │
//	granted ─► held ── its last command is begun ────────► ending ─── executed, or in doubt ──► gone
//	          │    ▲                                        ▲   │
//	Convert   │    │ refused                      a Release │   │ a Detach: executed, or in doubt
//	          ▼    │                              after it  │   ▼
//	        suspended ── granted, or in doubt ─► replaced   detached
//
// The last command is a Release, UpdateAndRelease, Delete or Detach. Once it is begun, new
// calls return doclock.ErrReleased at once, and those that wait at a gate when it opens; a
// Release waits for the verdict of the last command. While a Convert is under way, other calls
// wait for it. A Release of a
// detached lease is sent only if the Detach is in doubt: it ends the entry, detached or
// not.
//
// A lease has a validity, which ends once, and never begins again: its time is up, it is
// given up (before a command is sent that ends the lock or leaves it to others; that
// command may be executed though its answer is lost), or lost (the server has said so;
// this may also follow the other two). A lost lease is released all the same, because a
// late duplicate may have brought the entry back, and its Release returns doclock.ErrLost.
//
// # Who is trusted when
//
// The validity is this machine's: it ends a TTL after the last renewal was sent, before
// the server lets anybody in. The presence of the entry in the document is the server's
// verdict, which every command brings, and which wins: writes and releases are sent even
// after the end of the validity, and succeed where nobody was let in. Renewals are not: an
// ended lease is never revived. Under a lease that the server has declared lost nothing is
// written.
//
// # Commands
//
// A command outlives its caller: it runs to its end in a goroutine of the
// Locker's group, and a caller who gives up learns at once that its outcome is
// unknown, or that nothing was sent and nothing will be. A command of unknown
// outcome is repeated. What an earlier attempt may have done is then read from
// the document: a write's number in the entry, the id in `done`, or the key of a
// token.
//
// Two gates put the commands in order: the writing gate, of writes and of what ends the
// lease, is taken before the renewing gate, of renewals and of what ends the lease. A lease
// that has had transactions has a third one between them, with a place for each transaction
// at a time: what ends the lease, or changes its mark, takes all places.
//
// # Mutexes
//
// The wait queue's mutex and the [keeper]'s are taken before a lease's, which is
// taken before that of [Leases]. No command is sent,
// and no waiter is answered, under any of them. An event for the observer is only put
// into its queue, whose mutex is taken after all these. The end of a lease cancels
// the contexts of KeepAlive under its mutex.
//
// # Events
//
// A Locker's observer gets the events of the leases that a caller has. The first call that
// sees a loss emits it. A handoff and a conversion emit their own end. The verdict on the
// command that ends the lease emits every other end, before the caller gets it.
package lease
