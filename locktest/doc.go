// Package locktest has a database server in memory, for tests of programs that use
// doclock. A test needs no server, no network and no cleaning up. An acquire and its
// release take some ten to two hundred microseconds.
//
//	mem := locktest.New(t)
//	orders := mem.Collection("orders", bson.M{"_id": "A-17", "prints": 0})
//	locks, err := writelock.New(orders) // as in the program
//
// The collection is a real one of the MongoDB driver, whose connections lead to this
// server. So the Lockers are the real ones, and the server evaluates what they send to any
// server. Guards, registries, BSON options, command monitors and the program's own reads
// and writes work as they do elsewhere, and so does package admin. Two Lockers of one
// collection are as two programs.
//
// # Time
//
// The server's clock is this machine's. In a [testing/synctest] bubble all clocks and
// timers are virtual: the lease's validity, renewals, pauses of waiters, timeouts, and
// the server's time. An hour of renewals takes milliseconds. Test a wait, a renewal or
// the end of a lease in this way, with Lockers that are made in the bubble:
//
//	synctest.Test(t, func(t *testing.T) {
//		mem := locktest.New(t)
//		orders := mem.Collection("orders", bson.M{"_id": "A-17"})
//		locks, err := writelock.New(orders)
//		lease, err := locks.Acquire(t.Context(), bson.M{"_id": "A-17"})
//		time.Sleep(11 * time.Second) // takes no time
//		// lease.Err() is doclock.ErrLost
//	})
//
// A Locker may be open at the end of a bubble, and a lease held or kept with
// t.Context(). What has a context without an end must end before: a KeepAlive or an
// Acquire, else the bubble panics ("blocked goroutines remain"). So must the command of
// a call that gave up: it goes on in the background. Close the Locker. A claim that waits
// in the test's own goroutine polls for ever, if its context has no end.
//
// [Server.Advance] turns the server's clock alone, as if this process had been stopped
// meanwhile: the entry has expired, others are granted, and the lease still looks valid.
//
// # Faults
//
// [Server.Fail], [Server.LoseRequests], [Server.LoseReplies] and [Server.Delay] are for
// the next commands, or for the next of some kinds (see [Kind]): mem.Fail(1, refusal,
// locktest.Releases) passes over the renewals and clean-ups of the background. After
// [Server.Down] nobody reaches the server, and after [Server.Cut] one client doesn't.
// [Server.Lose] takes a lease away.
//
// A client that was told that it reaches nobody tries each connection for half a second,
// and then hears the reason again. So it notices at once when it reaches the server again.
// Have commands end before their test does: a driver that looks for a server when its
// client is disconnected looks forever.
//
// # Fail-over
//
// With [ReplicaSet] the server has three members. The driver finds the primary, keeps its
// pools, and repeats commands, as it does anywhere:
//
//	synctest.Test(t, func(t *testing.T) {
//		mem := locktest.New(t, locktest.ReplicaSet())
//		orders := mem.Collection("orders", bson.M{"_id": "A-17"})
//		locks, err := writelock.New(orders)
//		go locks.Do(…)
//		time.Sleep(10 * time.Second)
//		mem.StepDown() // another member becomes primary
//	})
//
// [Server.Isolate], [Server.Cut] and [Server.Heal] make and end partitions, with an
// old primary beside a new one, stale reads, and writes that are rolled back.
//
// With [Sharded] it is a sharded cluster with two routers, whose clocks may differ. The
// command shardCollection gives a collection its key, and a router refuses, with code 61,
// to look for a document by other fields.
//
// A replica set and a cluster have sessions and transactions, as the driver sends them. A
// write outside of a transaction waits for the one that has written its document.
// [Server.LimitTransactions] says when the server aborts a transaction.
//
// # Other programs
//
// [Start] makes a server for a program, and [Server.Listen] lets other processes reach it.
//
// # What it knows
//
// Commands: find, aggregate, findAndModify, insert, update, delete, count, create,
// createIndexes, drop, dropDatabase, listCollections and listDatabases (names alone),
// commitTransaction and abortTransaction. Query
// operators: $eq, $ne, $gt, $gte, $lt, $lte, $in, $nin, $and, $or, $nor, $not, $exists,
// $type, $regex, $size, $all, $elemMatch, $expr. Update operators: $set, $setOnInsert,
// $unset, $inc, $mul, $min, $max, $rename, $currentDate, $push (with $each, $slice,
// $sort, $position), $addToSet, $pull, $pullAll, $pop, with array filters; and pipelines of $set,
// $unset, $project, $replaceRoot and $replaceWith. Stages of aggregations: those,
// and $match, $sort, $limit, $skip and $count. Expressions: $literal, $let, $cond,
// $ifNull, $switch, $and, $or, $not, $cmp, $eq, $ne, $gt, $gte, $lt, $lte, $add,
// $subtract, $multiply, $max, $min, $sum, $toLong, $type, $isArray, $concat,
// $regexMatch, $size, $arrayElemAt, $concatArrays, $slice, $in, $filter, $map,
// $setIsSubset, $setUnion, $allElementsTrue, $anyElementTrue, $mergeObjects,
// $objectToArray and $arrayToObject.
//
// # What it does not know
//
// It refuses everything else with an error that names it, code 115 or 59. It never
// passes over an operator, also where no document matches. In particular it has no
// collations but the simple one, no TTL and partial indexes, no validators, views and
// capped collections, no change streams, and no positional operator `.$`. Regular
// expressions are Go's, without look-aheads and back references.
//
// On a standalone server write concerns, read concerns and hints have no effect; as any
// standalone it refuses a linearizable read, code 123, and a transaction, code 20. A
// replica set and a cluster have sessions, repeats of writes, transactions, write
// concerns and read concerns; there are no snapshots outside of transactions. None checks
// rights, and all answer a find with all documents at once. They are faster than a
// server: a document that is deleted and made again within one millisecond may give out
// the same fencing token twice.
//
// The tests of the library run on it, as they do on a server, and so do the random
// tests of the protocol: see docs/testing.md. Packages that lock don't depend on it.
package locktest
