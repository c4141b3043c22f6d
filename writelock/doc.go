// Package writelock locks MongoDB documents, one holder a document: the
// simplest thing that works.
//
//	locks, err := writelock.New(orders)
//
//	var order Order
//	lease, err := locks.Acquire(ctx, bson.M{"_id": id}, doclock.Into(&order))
//	if err != nil {
//		return err
//	}
//	err = lease.UpdateAndRelease(ctx, bson.M{"$set": bson.M{"total": order.Sum()}})
//
// That is a read-modify-write in two commands. [Locker.Do] holds a lock around
// a function, renews it, and releases it whatever happens.
//
// A write lock is a [multilock.Locker] with the rules [relations.Exclusive], which
// have one tag. An application that needs more changes the package and the rules;
// its documents stay as they are.
package writelock
