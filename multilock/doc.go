// Package multilock locks MongoDB documents under tags that relate to each
// other by rules.
//
// A [Locker] serves one collection and one set of rules. A tag that is
// cooperative to another gives way: its acquire is refused while the other is
// there, held or waiting. A tag that is assertive to another insists: it joins
// as a waiting entry, which keeps back whoever respects it, and is granted when
// the entries it waits for are gone. Tags with no relation ignore each other.
// [github.com/doclock/doclock/relations] has rules for the common cases:
//
//	locks, err := multilock.New(categories, relations.WritePreferring(), doclock.TTL(5*time.Second))
//
//	err = locks.Do(ctx, bson.M{"_id": id}, "read", func(ctx context.Context, lease *doclock.Lease) error {
//		…
//	})
//
// From the simplest to the finest: [Locker.Do] holds the lock around a
// function; [Locker.Acquire] waits for a lease; [Locker.TryAcquire] fails at
// once with the names of those in the way; [Locker.Enqueue] takes a place in
// the queue and leaves the waiting to the caller.
//
// # Waiting
//
// Acquire waits until its context ends; there is no other deadline. A tag
// without assertive relations is refused and asks again; one with them has a
// place in the document's queue. Pauses are jittered, grow with the time for which
// nothing has changed, and never go past the moment when the lock becomes free by
// itself.
//
// The waiters of one document in one process stand in a wait queue of their own.
// One of them polls for all. A released lease is handed over to the next waiter
// in the same command, for a bounded time before other processes are let in.
// An Acquire has no place in the document before its turn in the wait queue has
// come; a [Ticket] has one from the start, and its [Ticket.Wait] stands in the
// same wait queue. A filter that doesn't demand an equal _id is asked about first,
// for the lock alone: where it has to wait, that is one command more.
// With [doclock.ShareInProcess] the holders of a tag in one process have one entry in
// common, so that the document's arrays grow with the processes.
//
// # Two programs, two sets of rules
//
// A live entry under a tag that a program's rules do not know refuses each
// of its arrivals: different rules on one document must not ignore each other
// silently. So a new tag is rolled out in two steps: first the rules that
// know it, everywhere; then the programs that use it.
//
// The idea of cooperative and assertive tags is monglock's.
package multilock
