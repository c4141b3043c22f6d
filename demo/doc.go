// Demo is an address book under many hands, first without locks and then with them.
//
//	go run ./demo
//
// Adders put the id of a category on a contact. Deleters take the id of a category off all contacts, and then delete the
// category. Contacts and categories are documents of two collections, so no single command covers both, and a deleter that
// comes between an adder's look at the category and its write to the contact leaves a dangling reference: a contact with the
// id of a category that is no more.
//
// With locks, which are in the category's own document, an adder holds "read" while it looks and writes, and a deleter holds
// "write". Many adders work side by side; a deleter keeps new ones out, waits for those inside, and is alone then.
//
// What to read, in this order:
//
//   - adder.go and deleter.go: the work without a lock, and beside it with one. This is what to copy.
//   - pause_unix.go: what a lock can't do. A process is stopped while it holds one, and its write comes too late. It notices
//     that when it releases the lock, and puts things right.
//   - scan.go: how dangling references are found.
//
// The rest gets a server and starts the processes that the hands work in, and reports.
package main
