// Package writelock locks MongoDB documents, one holder for each document: the simplest
// thing that works.
//
//	locks, err := writelock.New(orders)
//
//	var order Order
//	lease, err := locks.Acquire(ctx, doclock.ID(id), doclock.Into(&order))
//	if err != nil {
//		return err
//	}
//	err = lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"total": order.Sum()}})
//
// That is a read-modify-write in two commands. [Locker.Do] holds a lock around a function,
// renews it, and releases it whatever happens. [Locker.TryAcquire] doesn't wait.
// [Locker.Lead] gets the lock again after each loss. The errors are those of package
// doclock.
//
// A write lock is a [multilock.Locker] with the rules [relations.Exclusive], which have
// one tag. For readers beside a writer, for n holders, or for a queue over all processes,
// change the package and the rules; the documents stay as they are.
package writelock
