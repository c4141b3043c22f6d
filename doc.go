// Package doclock locks MongoDB documents. A lock is a field of the document that it
// protects. This package has what both lockers share: [Lease], the options, the errors
// and the events. These two lock:
//
//   - [github.com/doclock/doclock/writelock]: one holder for each document. Begin here.
//   - [github.com/doclock/doclock/multilock]: tags such as "read" and "write", with
//     rules of [github.com/doclock/doclock/relations] between them: readers and writers,
//     semaphores, queues.
//
// Do holds the lock around a function, renews it, and releases it whatever happens:
//
//	locks, err := writelock.New(orders) // one for the life of the program
//	var order Order
//	err = locks.Do(ctx, doclock.ID("A-17"), func(ctx context.Context, lease doclock.Lease) error {
//		… // as long as it takes
//		return lease.Update(ctx, bson.M{"$set": bson.M{"state": "packed"}}) // refused if the lock was lost
//	}, doclock.Into(&order)) // the document, read by the command that locks it
//
// Take a lock for work between a read and a write: a call to another service, a form, a
// migration. A condition in one update's filter needs none. README.md compares what else
// there is, and docs/jobs.md has the code for common jobs.
//
// # What a lock is
//
// A lock is an entry in a subdocument of the document, as in
//
//	lock: {fence: 1795255512860, tags: {write: [{
//		id:      UUID("f0ef07…"),  // of one acquire
//		owner:   "host/4711/api",  // for people
//		seq:     1795255512858,    // order of arrival
//		fence:   1795255512860,    // fencing token; absent while the entry is waiting
//		since:   ISODate("…"),     // arrival
//		expires: ISODate("…"),     // others may be granted from then on
//	}]}}
//
// docs/layout.md has all fields. One atomic command decides, by the entries, the rules
// and the server's clock. It grants the lock, joins the document's queue, or refuses and
// changes nothing. Its answer shows the lock as the command left it, so a refusal names
// the holders.
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
// Only the server's clock writes and judges expiries. The holder counts the TTL from
// before its command was sent, so its lease stops being valid before the server grants
// the lock to others; the server keeps the entry for [ClockTolerance] longer. An answer
// that there is no entry counts only after a linearizable read where the server has
// several members: the one that answered may have been primary before.
//
// A valid lease is no proof, because a process can be stopped between a look at
// [Lease.Err] and a write. The proof is in the document: an entry excludes others until
// its release, or until another command finds it expired and removes it. So a write that
// matches [Lease.Guard], as those of [Lease.Update] and [Lease.UpdateAndRelease] do, is
// applied if nobody was granted since, and refused otherwise.
//
// A write to another document has no such guard, and may come late from a process that
// was stopped. Release then returns [ErrLost], or [ErrOutcomeUnknown] if no server can be
// asked: undo the write, or check the fencing token ([Lease.Fence]) at its target. A lock
// excludes only those who ask for it. A write that replaces the whole document erases
// the lock, or brings an old one back.
//
// # Errors
//
// Test for errors with [errors.Is]; they wrap the driver's errors. One rule covers Do,
// DoAll, Lead and Release: after an [ErrLost] or an [ErrOutcomeUnknown] others may have
// been granted while you worked, so undo what you wrote to other places. After an
// [ErrNotAcquired] your function never ran. Without these nobody was granted. Every error
// of an acquire is an ErrNotAcquired, beside its cause.
//
// A write or a release of unknown outcome is repeated for 30 s at most; then the error is
// an ErrOutcomeUnknown. While no server can be reached a command is tried for 30 s, and
// then the error is the driver's. A refusal is returned at once. docs/errors.md says what
// to do about each error.
//
// # Observing
//
// [LogTo] logs what happens to a Locker's acquires and leases, and [OnEvent] calls a
// function for each [Event], in order. A slow observer delays nobody.
package doclock
