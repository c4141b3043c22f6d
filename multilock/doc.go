// Package multilock locks MongoDB documents under tags, such as "read" and "write", that
// relate to each other by rules.
//
//	locks, err := multilock.New(categories, relations.WritePreferring(), doclock.TTL(5*time.Second))
//
//	err = locks.Do(ctx, doclock.ID(id), "read", func(ctx context.Context, lease doclock.Lease) error {
//		…
//	})
//
// Take it for readers beside a writer, for n holders, for a queue over all processes, or to
// hold several documents. Package writelock is simpler for one holder at a time. Package
// relations has rules for the common cases, and says what the relations mean.
//
// There are four ways to acquire. [Locker.Do] holds the lock around a function.
// [Locker.Acquire] waits for a lease. [Locker.TryAcquire] fails at once, and names the
// holders in the way. [Locker.Enqueue] takes a place in the document's queue and leaves the
// waiting to the caller. [AcquireAll] and [DoAll] acquire leases of several documents, all
// or none, in one order, so that their callers don't wait for each other in a circle. With
// [doclock.SkipLocked] TryAcquire, Acquire and Do claim any document that matches the filter
// and is free. [doclock.Lease.Convert] replaces a lease by one of another tag.
//
// # Waiting
//
// Acquire waits until its context or a [doclock.MaxWait] ends. Under a tag without assertive
// relations it is refused, and asks again. Under a tag with them it has a place in the
// document's queue. Pauses between two commands have a random part. They grow while nothing
// changes, and end at the latest when the lock becomes free by itself.
//
// The waiters of one document in one Locker form a wait queue. One of them polls for all. A
// release hands the lock over to the next waiter in the same command, for a bounded time.
// Then it leaves the lock free: with assertive relations the next in the document's queue
// gets it, else whoever asks first. A process with waiters asks at once, and another one
// each second, so cooperative waiters of another process may lose many times, for minutes:
// see [relations.Fair]. An Acquire takes a place in the document's queue when its turn in
// the wait queue has come; a [Ticket] has one from the start. If a filter doesn't demand an
// equal _id (see [doclock.ID]), a wait costs one command more.
//
// # The errors of an acquire
//
// Every error is a [doclock.ErrNotAcquired], beside its cause: the caller holds nothing. The
// causes are
//   - [doclock.ErrInvalidArgument], [doclock.ErrInTransaction]: nothing was sent;
//   - [doclock.ErrConflict], [doclock.ErrNotFound], [doclock.ErrForeignLock],
//     [doclock.ErrUnsupportedServer], [doclock.ErrClosed];
//   - the driver's errors, and ctx's.
//
// If ctx ends first, the call returns at once, with ctx's error, with the conflict if this
// process knows of one, and with the driver's reason if no server can be reached. No entry
// stays in the document: what is granted later is released in the background. A command of
// unknown outcome is sent again if the filter demands an equal _id; by another filter a
// second one could find another document. Wrong credentials are an error at once.
//
// The filter is encoded once, with the collection's registry and BSON options, in the
// caller's goroutine and before anything is sent. At most 8 acquires of one document and 64
// of one Locker are under way at a time; the others wait before they are sent.
//
// # An acquire that would wait for itself
//
// An acquire would wait for ever for a lease of its own context: inside the function of a
// Do, DoAll or Lead, or with a context of [doclock.Lease.KeepAlive]. It is refused at once,
// also if only a waiter is in its way that waits for such a lease: a read inside a read,
// while a writer waits. The conflict names these entries alone ([doclock.Holder]). A
// goroutine that has inherited the context is refused too. To wait for the end of the
// function, use a context from outside.
//
// A circle of several contexts is not recognised: two functions that each hold a place of
// one semaphore, or one of two documents, and wait for the other's. Bound such waits, as by
// [doclock.MaxWait], or take all locks by one DoAll.
//
// # Two programs, two sets of rules
//
// If a program's rules don't know the tag of a live entry, all its acquires are refused. So
// introduce a new tag in two steps: first deploy the rules that know it, everywhere; then
// the programs that use it.
//
// The idea of cooperative and assertive tags is monglock's.
package multilock
