// Package doclock locks MongoDB documents. It has what both lockers share:
// [Lease], the options and the errors. These two lock:
//
//   - [github.com/doclock/doclock/writelock]: one exclusive lock per document;
//   - [github.com/doclock/doclock/multilock]: locks with tags, whose relations to
//     each other are rules of [github.com/doclock/doclock/relations]: readers and
//     writers, semaphores, fair queues, or what the application needs.
//
// The function of a Do runs while nobody else holds the lock. The lock is renewed
// meanwhile, and released afterwards, whatever happens:
//
//	locks, err := writelock.New(orders)
//	var order Order
//	err = locks.Do(ctx, doclock.ID("A-17"), func(ctx context.Context, lease doclock.Lease) error {
//		… // as long as it takes
//		return lease.Update(ctx, bson.M{"$set": bson.M{"state": "packed"}}) // refused if the lock was lost
//	}, doclock.Into(&order)) // the document, read by the command that locks it
//
// # What a lock is
//
// A lock is an entry in a subdocument of the document that it protects:
//
//	lock: {
//	  fence: 1795255512860,            // the last number given out; never decreases
//	  tags: {
//	    write: [ {
//	      id:      UUID("f0ef07…"),    // of one acquire
//	      owner:   "host/4711/api",    // for people
//	      seq:     1795255512858,      // order of arrival
//	      fence:   1795255512860,      // fencing token; absent while the entry is waiting
//	      since:   ISODate("…"),       // arrival
//	      expires: ISODate("…"),       // others may be let in from then on
//	      n:       2,                  // number of the last guarded write; absent until the first
//	      until:   ISODate("…")        // others are kept out until then; absent without HoldAtLeast
//	    } ]                            // and key and detached, after a Detach
//	  },
//	  done: [ UUID("3f2bd1…") ]        // leases that ended with a write, the last 8
//	}
//
// One atomic command decides, by the entries, the rules and the server's clock. It
// grants the lock, joins the document's queue, or refuses and changes nothing. Its
// answer is an image: the lock as the command left it. So a refusal names the holders.
//
// # The life of a lease
//
//	          TryAcquire, Acquire           renewed
//	               ┌──────────┐            ┌──────┐
//	refused ◄──────┤  arrive  ├──────►  held ◄─────┘
//	               └────┬─────┘         ▲   │ │ │
//	    an assertive    │       granted │   │ │ └── Release, UpdateAndRelease,
//	                    │               │   │ │     Delete, Detach, Downgrade ──► released
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
// Where the server has several members, one that was primary before may not know the
// entry. So an answer that there is no entry counts only after a linearizable read,
// which is one command more.
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
// Test for errors with [errors.Is]; they wrap the driver's errors. One rule covers
// most of them. If the error of Do, DoAll, Lead or Release is an [ErrLost] or an
// [ErrOutcomeUnknown], others may have been let in while you worked: undo what you
// wrote to other places. If it is an [ErrNotAcquired], your function never ran. Without
// these nobody was let in. docs/errors.md has a recipe for each error.
//
// Every error of an acquire is an ErrNotAcquired, whatever its cause: the caller holds
// nothing. If it is unknown whether a write or a release was executed, the command is
// repeated while its context allows. Then the error is an ErrOutcomeUnknown, never a
// guess. A command was certainly not executed if no server can be reached, or the driver
// knows no primary. It is tried for 30 s, and then the error is the driver's. A refusal,
// also of the credentials, is returned at once.
//
// # Observing
//
// A Locker with the option [LogTo] logs what happens to its acquires and leases. One
// with [OnEvent] calls a function for each [Event]: a wait, a grant, a refusal, a
// renewal, the end of a lease, a loss, an unknown outcome. The events come in order,
// with durations and the number of commands. A slow observer delays nobody.
package doclock
