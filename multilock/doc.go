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
// leaves the waiting to the caller.
//
// [doclock.Lease.Downgrade] replaces a lease by one of another tag, and lets nobody
// in between: a writer becomes a reader.
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
// # Two programs, two sets of rules
//
// If a program's rules don't know the tag of a live entry, all its acquires are
// refused: two programs with different rules must not ignore each other's locks. So
// introduce a new tag in two steps. First deploy the rules that know it, everywhere.
// Then deploy the programs that use it.
//
// The idea of cooperative and assertive tags is monglock's.
package multilock
