// Package doclock locks MongoDB documents. It is the part that both lockers
// share: [Lease], the options and the errors. Locks are acquired with
//
//   - [github.com/doclock/doclock/writelock]: one exclusive lock a document;
//   - [github.com/doclock/doclock/multilock]: locks with tags, which relate to
//     each other by a table of [github.com/doclock/doclock/relations]: readers
//     and writers, semaphores, fair queues, or what the application needs.
//
// # What a lock is
//
// A lock is an entry in a subdocument of the document that it protects:
//
//	lock: {
//	  fence: 1795255512860,            // the last number given out; never decreases
//	  tags: {
//	    write: [ {
//	      id:      UUID("f0ef07…"),    // of this acquire
//	      owner:   "host/4711/api",    // for people
//	      seq:     1795255512858,      // order of arrival
//	      fence:   1795255512860,      // token; absent while the entry is waiting
//	      since:   ISODate("…"),       // arrival
//	      expires: ISODate("…"),       // others may be let in from then on
//	      n:       2                   // number of the last guarded write; absent until the first
//	    } ]
//	  },
//	  done: [ UUID("3f2bd1…") ]        // leases that ended with a write, the last 8
//	}
//
// One atomic command decides: it sees the entries, the table and the server's
// clock, and grants, joins the queue, or refuses and changes nothing. The
// answer is the image of the document, so a refusal names the holders.
//
// # The life of a lease
//
//	          TryAcquire, Acquire           renewed
//	               ┌──────────┐            ┌──────┐
//	refused ◄──────┤  arrive  ├──────►  held ◄─────┘
//	               └────┬─────┘         ▲   │ │ │
//	    an assertive    │       granted │   │ │ └── Release, UpdateAndRelease ──► released
//	    relation blocks ▼               │   │ └──── the entry is gone ──────────► lost
//	                 waiting ───────────┘   └────── its time is up ─────────────► lost
//	                    └── not confirmed in time ───────────────────────────────► lost
//
// # Who is trusted when
//
// The server's clock alone writes expiries and judges them. A client's clock
// is never compared with it, nor with another client's: the holder counts the
// TTL from before its command was sent, so its belief ends first. Around it
// the server keeps the entry for [ClockTolerance] longer.
//
// Belief is not proof. A process can be stopped between looking at
// [Lease.Err] and writing. The proof is in the document: an entry excludes
// others as long as it is there and has not expired, and leaves by its release
// or because somebody else's command found it expired and pruned it. So a
// write that matches [Lease.Guard], as [Lease.Update] and
// [Lease.UpdateAndRelease] do, is never a late one: it is applied if nobody
// was let in since, and refused otherwise. The token, [Lease.Fence], tells an
// entry from one that a delayed duplicate of its acquire brought back.
//
// A write to another document under the lock has no such guard, and can come
// late from a stopped process. Release then returns [ErrLost]: compensate, or
// fence at the target with the token. What the library can't see, it can't
// protect: a lock excludes only those who ask for it; replacing the whole
// document erases the lock or brings an old one back.
//
// # Errors
//
// Errors are tested for with [errors.Is]; they wrap what the driver said. Every
// failing acquire is an [ErrNotAcquired], whatever its cause, and means that the
// caller holds nothing. A write or a release of which nobody can say whether it
// was executed is repeated while its context allows, and then is an
// [ErrOutcomeUnknown], never a guess. A command that can't be sent, since no
// server can be reached, was certainly not executed: it is tried for 30 s, and
// then the driver's error is returned.
package doclock
