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
//	                    │               │   │ │     Delete, Detach, Convert ────► released
//	    relation blocks ▼               │   │ └──── the entry is gone ──────────► lost
//	                 waiting ───────────┘   └────── its time is up ─────────────► lost
//	                    └── not confirmed in time ───────────────────────────────► lost
//
// # Who is trusted when
//
// Only the server's clock writes expiries and judges them, and no client's clock is
// compared with it. The holder counts the TTL from before its command was sent, so its
// lease stops being valid before the server lets others in; the server keeps the entry
// for [ClockTolerance] longer. An answer that there is no entry counts only after a
// linearizable read where the server has several members: one may have been primary.
//
// A valid lease is no proof: a process can be stopped between a look at [Lease.Err] and
// a write. The proof is in the document: an entry excludes others until its release, or
// until another command finds it expired and removes it. So a write that matches
// [Lease.Guard], as those of [Lease.Update] and [Lease.UpdateAndRelease] do, never comes
// late: it is applied if nobody was let in since the grant, and refused otherwise.
//
// A write to another document under the lock has no such guard, and may come
// late from a process that was stopped. Release then returns [ErrLost], or
// [ErrOutcomeUnknown] if no server can be asked: undo the write, or check the fencing
// token ([Lease.Fence]) at its target. A lock excludes only those who ask for it, and a
// write that replaces the whole document erases the lock or brings an old one back.
//
// # Errors
//
// Test for errors with [errors.Is]; they wrap the driver's errors. One rule covers
// most of them. If the error of Do, DoAll, Lead or Release is an [ErrLost] or an
// [ErrOutcomeUnknown], others may have been let in while you worked: undo what you
// wrote to other places. If it is an [ErrNotAcquired], your function never ran. Without
// these nobody was let in. Every error of an acquire is an ErrNotAcquired, whatever its
// cause. docs/errors.md has a recipe for each error.
//
// A write or a release of unknown outcome is repeated while its context allows; then the
// error is an ErrOutcomeUnknown, never a guess. While no server can be reached, or the
// driver knows no primary, nothing was executed: a command is tried for 30 s, and then
// the error is the driver's. A refusal is returned at once.
//
// # Observing
//
// [LogTo] logs what happens to a Locker's acquires and leases, and [OnEvent] calls a
// function for each [Event], in order. A slow observer delays nobody.
package doclock
