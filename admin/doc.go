// Package admin shows the locks of a collection to an operator, and removes them.
// The lockers don't need it.
//
//	lock, err := admin.Inspect(ctx, orders, doclock.ID("A-17"))   // who holds this document?
//	for e, err := range admin.Entries(ctx, orders, admin.Query{Only: admin.Live}) { … }
//	gone, err := admin.Break(ctx, orders, lock.Entries[0])        // this entry, and no other
//	dead := admin.Query{OwnerPrefix: "web-3/"}                    // a machine that died
//	count, err := admin.Remove(ctx, orders, dead)                 // all of its entries
//	count, err := admin.Sweep(ctx, orders)                        // what has expired
//
// An [Entry] is one element of the lock field, held or waiting. Times are those of
// the server's clock. The key of a token is never shown: whoever has it can resume
// the lease. A cooperative waiter is refused and asks again: it has no entry, so
// somebody may wait though nothing shows it. A field that is not a lock of
// doclock's is a [doclock.ErrForeignLock], and is never changed.
//
// A removal names an entry by tag, id and fencing token. An entry that was granted,
// resumed or made anew in the meantime is another entry, and stays. After a removal
// the server grants the lock to others at once, and refuses the former holder's
// guarded writes, renewals and releases. The holder itself learns it late: see
// [Break].
//
// All functions read with majority read concern from the primary, and write with
// majority write concern, whatever the collection's own settings are. They are safe
// for concurrent use, with each other and with running programs. They end with ctx,
// and repeat no removal: after an error call the function again. A command of one
// document or of a batch ends after 30 s without an answer. In a context with a running
// transaction they return a [doclock.ErrInTransaction].
//
// A query reads the whole collection, unless it names tags that have an index: see
// [EnsureIndexes]. It takes as long as ctx lasts, and so does making an index: give
// both a ctx that ends.
package admin
