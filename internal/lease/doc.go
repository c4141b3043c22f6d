// Package lease has what follows the grant of a lock: for how long it is valid, who
// holds it, what is written under it, and how it is released.
//
// # Holds and handles
//
// A [Hold] is an entry that stands in a document. A [Handle] is one holder's
// part of it, and what users know as a doclock.Lease. An exclusive lock is a
// hold with one handle. If goroutines of one process share an entry, the hold has
// a handle for each of them. [Holds] are those of one Locker.
//
// # States
//
// A hold has a phase: what its commands have come to.
//
//	            ┌────────── refused, or not sent ───────────┐
//	            ▼                                           │
//	granted ─► held ── its last command is sent ─────────► ending ─── executed, or in doubt ──► gone
//	          │    ▲                                        ▲   │
//	Downgrade │    │ refused                      a Release │   │ a Detach: executed, or in doubt
//	          ▼    │                              after it  │   ▼
//	        suspended ── granted, or in doubt ─► replaced   detached
//
// The last command is a Release, UpdateAndRelease, Delete or Detach, of the only
// holder, or of the last one of several. A Release of a detached hold is sent only
// if the Detach is in doubt: it ends the entry, detached or not. If it is refused,
// the hold is detached as before.
//
// A hold has a validity, which ends once, and never begins again: valid, expired (its
// time was up), given up (before a command is sent that ends the lock or leaves it to
// others; that command may be executed though its answer is lost), or lost (the
// server has said so; this may also follow the other two).
//
// What a call of the only holder does:
//
//	                                held                  ending, gone      detached            replaced
//	Update                          sent                  doclock.ErrReleased       doclock.ErrReleased         doclock.ErrReleased
//	UpdateAndRelease, Delete        sent: ending          doclock.ErrReleased       doclock.ErrReleased         doclock.ErrReleased
//	Detach                          sent: ending          doclock.ErrReleased       doclock.ErrReleased         doclock.ErrReleased
//	Downgrade                       sent: suspended       doclock.ErrReleased       doclock.ErrReleased         doclock.ErrReleased
//	Renew, a valid hold             sent                  –                 –                   –
//	Renew, another one              why it has ended      as held           as held             as held
//	Release                         sent: ending          the same answer   the same answer,    nil, or the
//	                                                                        or sent: ending     Downgrade's doubt
//
// While a command is under way that ends or suspends the hold, other calls wait for
// it. If the hold is lost, Release is sent, because a late duplicate may have brought
// the entry back, and returns doclock.ErrLost. All others return doclock.ErrLost, and send nothing or
// a release.
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
// # Commands
//
// A command outlives its caller: it runs to its end in a goroutine of the
// Locker's group, and a caller who gives up learns at once that its outcome is
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
// and no waiter is answered, under any of them. An event for the observer is only put
// into its queue, whose mutex is taken after all these. The end of a hold cancels
// the contexts of KeepAlive under its mutex.
//
// # Events
//
// The observer of a Locker gets the events of leases that callers have got. The timer
// that ends the validity emits a loss by time. The verdict on the command that ends
// the lease emits all other ends, before the caller gets it.
package lease
