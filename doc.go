// Package doclock locks MongoDB documents. It has what both lockers share:
// [Lease], the options and the errors. Acquire locks with
//
//   - [github.com/doclock/doclock/writelock]: one exclusive lock per document;
//   - [github.com/doclock/doclock/multilock]: locks with tags, whose relations to
//     each other are rules of [github.com/doclock/doclock/relations]: readers and
//     writers, semaphores, fair queues, or what the application needs.
//
// # What a lock is
//
// A lock is an entry in a subdocument of the document that it protects:
//
//	lock: {
//	  fence: 1795255512860,            // the last number that was used; never decreases
//	  tags: {
//	    write: [ {
//	      id:      UUID("f0ef07…"),    // of this acquire
//	      owner:   "host/4711/api",    // for people
//	      seq:     1795255512858,      // order of arrival
//	      fence:   1795255512860,      // fencing token; absent while the entry is waiting
//	      since:   ISODate("…"),       // arrival
//	      expires: ISODate("…"),       // others may be let in from then on
//	      n:       2,                  // number of the last guarded write; absent until the first
//	      until:   ISODate("…")        // others are kept out until then; absent without HoldAtLeast
//	    } ]
//	  },
//	  done: [ UUID("3f2bd1…") ]        // leases that ended with a write, the last 8
//	}
//
// One atomic command decides. It sees the entries, the rules and the server's
// clock, and grants the lock, joins the document's queue, or refuses and changes
// nothing. It answers with the image of the document: the document as the
// command left it. So a refusal names the holders.
//
// # The life of a lease
//
//	          TryAcquire, Acquire           renewed
//	               ┌──────────┐            ┌──────┐
//	refused ◄──────┤  arrive  ├──────►  held ◄─────┘
//	               └────┬─────┘         ▲   │ │ │
//	    an assertive    │       granted │   │ │ └── Release, UpdateAndRelease,
//	                    │               │   │ │     Detach, Downgrade ──────────► released
//	    relation blocks ▼               │   │ └──── the entry is gone ──────────► lost
//	                 waiting ───────────┘   └────── its time is up ─────────────► lost
//	                    └── not confirmed in time ───────────────────────────────► lost
//
// # Who is trusted when
//
// Only the server's clock writes expiries and judges them. No client's clock is
// compared with it, or with another client's. The holder counts the TTL from
// before its command was sent, so its lease stops being valid before the server
// lets others in. The server keeps the entry for [ClockTolerance] longer than
// that.
//
// A valid lease is no proof. A process can be stopped between a look at
// [Lease.Err] and a write. The proof is in the document: an entry excludes
// others as long as it is there and has not expired. It leaves the document by
// its release, or because another command found it expired and removed it. So a
// write that matches [Lease.Guard], as those of [Lease.Update] and
// [Lease.UpdateAndRelease] do, never comes late: it is applied if nobody was let
// in since the grant, and refused otherwise. The fencing token, [Lease.Fence],
// distinguishes an entry from one that a delayed duplicate of its acquire brought back.
//
// A write to another document under the lock has no such guard, and may come
// late from a process that was stopped. Release then returns [ErrLost], or
// [ErrOutcomeUnknown] if no server can be asked: undo the write, or check the
// fencing token at its target. The library can't protect what it can't see. A lock
// excludes only those who ask for it, and a write that replaces the whole document
// erases the lock or brings an old one back.
//
// # Errors
//
// Test for errors with [errors.Is]; they wrap the driver's errors. Every error of
// an acquire is an [ErrNotAcquired], whatever its cause: the caller holds
// nothing. If nobody can say whether a write or a release was executed, it is
// repeated while its context allows, and is then an [ErrOutcomeUnknown], never a
// guess. A release of unknown outcome says of the lock that nobody knows whether
// others were let in. A command that can't be sent, because no server can be
// reached, or that no primary takes, was certainly not executed. It is tried for
// 30 s, and then the driver's error is returned. A refusal, also of the
// credentials, is returned at once.
//
// # Observing
//
// A Locker with the option [LogTo] logs what happens to its acquires and leases, and
// one with [OnEvent] calls a function for each [Event]: a wait, a grant, a refusal, a
// renewal, the end of a lease, a loss, an outcome that is unknown. The events come in
// order, with durations and the number of commands, and an observer delays nobody.
package doclock
