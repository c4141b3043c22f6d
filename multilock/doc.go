// Package multilock locks MongoDB documents under tags that relate to each
// other by a table.
//
// A [Locker] serves one collection and one table of relations. A tag that is
// cooperative to another gives way: its acquire is refused while the other is
// there, held or waiting. A tag that is assertive to another insists: it joins
// as a waiting entry, which keeps back whoever respects it, and is granted when
// the entries it waits for are gone. Tags with no relation ignore each other.
// [github.com/doclock/doclock/relations] has tables for the common cases:
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
// nothing has changed, and never go past the moment when the lock falls free by
// itself.
//
// The waiters of one document in one process stand in a line of their own, of
// which one polls for all; a lease that is released is handed over to the next
// in the same command, for a bounded time before other processes are let in.
// None of them has a place in the document before its turn in line has come. A
// filter that doesn't demand an equal _id is asked about first, for the lock
// alone: where it has to wait, that is one command more.
// With [doclock.ShareInProcess] the holders of a tag in one process have one entry in
// common, so that the document's arrays grow with the processes.
//
// # Two programs, two tables
//
// A live entry under a tag that a program's table does not know refuses each
// of its arrivals: different tables on one document must not ignore each other
// silently. So a new tag is rolled out in two steps: first the table that
// knows it, everywhere; then the programs that use it.
//
// The idea of cooperative and assertive tags is monglock's.
package multilock
