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
// # What is shown
//
// An [Entry] is one element of the lock field, held or waiting. Times are those of
// the server's clock. The key of a token is never shown: whoever has it can resume
// the lease.
//
// Only a waiter behind an assertive relation has an entry. A cooperative waiter is
// refused, and asks again: see package [github.com/doclock/doclock/relations].
// Nothing here shows it. So somebody may wait though the list has no waiting entry.
//
// A field that is not a lock of doclock's is a [doclock.ErrForeignLock], and is
// never changed.
//
// # What is removed
//
// A removal names an entry by tag, id and fencing token. An entry that was granted,
// resumed or made anew in the meantime is another entry, and stays. After a removal
// the server grants the lock to others at once, and refuses the former holder's
// guarded writes, renewals and releases. The holder itself learns it late: see
// [Break].
//
// All functions read with majority read concern from the primary, and write with
// majority write concern, whatever the collection's own settings are. They are safe
// for concurrent use, with each other and with running programs. They end with ctx, and
// repeat no write: after an error call the function again. In a context with a running
// transaction they return a [doclock.ErrInTransaction].
//
// # Indexes
//
// A query reads the whole collection, one document after the other, because an entry
// can be under any tag. With the indexes of [EnsureIndexes] a [Query] of tags reads
// only the documents that have entries of these. Nothing else in doclock makes an
// index. Never make a TTL index on the lock field: it would delete the documents.
package admin
