// Package multilock locks MongoDB documents under tags that relate to each other by
// rules.
//
// A [Locker] serves one collection and one set of rules. A relation of one tag to
// another is one of two kinds. If it is cooperative, an acquire is refused while an
// entry of the other tag is in the document, held or waiting. If it is assertive,
// the acquire joins as a waiting entry, and is granted when the entries that it
// waits for have left. A tag respects the tags to which it has a relation, and their
// waiting entries too. It ignores all others. Package [relations] has rules for the
// common cases:
//
//	locks, err := multilock.New(categories, relations.WritePreferring(), doclock.TTL(5*time.Second))
//
//	err = locks.Do(ctx, bson.M{"_id": id}, "read", func(ctx context.Context, lease doclock.Lease) error {
//		…
//	})
//
// There are four ways to acquire. [Locker.Do] holds the lock around a function.
// [Locker.Acquire] waits for a lease. [Locker.TryAcquire] fails at once, and names
// the holders in the way. [Locker.Enqueue] takes a place in the document's queue and
// leaves the waiting to the caller. With [doclock.TakeOver] an acquire ends the leases of
// holders that it names.
//
// [doclock.Lease.Convert] replaces a lease by one of another tag, and lets nobody
// in between: a writer becomes a reader, or the only reader a writer.
//
// [AcquireAll] and [DoAll] acquire leases of several documents, all or none, in one
// order, so that their callers don't wait for each other in a circle.
//
// With [doclock.SkipLocked], TryAcquire, Acquire and Do take any document that
// matches the filter and is free: they claim it. With [doclock.Sort] it is the first
// by the keys.
//
// # Waiting
//
// Acquire waits until its context or a [doclock.MaxWait] ends. Under a tag without
// assertive relations it is refused, and asks again. Under a tag with them it has a
// place in the document's queue. Pauses between two commands have a random part.
// They grow while nothing changes, and end at the latest when the lock becomes free
// by itself.
//
// The waiters of one document in one Locker form a wait queue. One of them polls for
// all. A release hands the lock over to the next waiter in the same command, for a
// bounded time. Then it leaves the lock free: with assertive relations the next in the
// document's queue gets it, else whoever asks first. A process with waiters asks at
// once, and another one each second, so cooperative waiters of another process may lose
// many times, for minutes: see [relations.Fair]. An Acquire takes a place in the
// document queue when its turn in the wait queue has come. A [Ticket] has a place
// from the start, and its [Ticket.Wait] waits in the same wait queue. If a filter
// doesn't demand an equal _id (see [doclock.ID]), a wait costs one command more.
// With [doclock.ShareInProcess] the holders of a tag in one process have one entry
// in common.
//
// # The errors of an acquire
//
// Every error is a [doclock.ErrNotAcquired], beside its cause: the caller holds nothing.
// The causes are
//   - [doclock.ErrInvalidArgument], [doclock.ErrInTransaction], [doclock.ErrClosed]:
//     nothing was sent;
//   - [doclock.ErrConflict], [doclock.ErrNotFound], [doclock.ErrForeignLock],
//     [doclock.ErrUnsupportedServer];
//   - the driver's errors, and ctx's.
//
// If ctx ends first, the call returns at once. Its error is ctx's, with the conflict if
// this process knows of one, and with the driver's reason if no server can be reached.
// No entry stays in the document, held or waiting: what is granted later is released in
// the background. A command of unknown outcome is sent again if the filter demands an
// equal _id; by another filter a second one could find another document. Wrong
// credentials are an error at once.
//
// The filter is encoded once, with the collection's registry and BSON options, in the
// caller's goroutine and before anything is sent. At most 8 acquires of one document and
// 64 of one Locker are under way at a time; the others wait before they are sent.
//
// # An acquire that would wait for itself
//
// An acquire would wait for ever for a lease of its own context: inside the function of a
// Do, DoAll or Lead, or with a context of [doclock.Lease.KeepAlive]. It is refused at
// once, also if only a waiter is in its way that waits for such a lease: a read inside a
// read, while a writer waits. The conflict names these entries alone
// ([doclock.Holder]). A goroutine that has inherited the context is refused too. To wait
// for the end of the function, use a context from outside.
//
// A circle of several contexts is not recognised: two functions that each hold a place
// of one semaphore, or one of two documents, and wait for the other's. Bound such waits,
// as by [doclock.MaxWait], or take all locks by one [DoAll].
//
// # Two programs, two sets of rules
//
// If a program's rules don't know the tag of a live entry, all its acquires are
// refused: two programs with different rules must not ignore each other's locks. So
// introduce a new tag in two steps. First deploy the rules that know it, everywhere.
// Then deploy the programs that use it.
//
// The idea of cooperative and assertive tags is monglock's.
package multilock
