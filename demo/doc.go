// Demo shows what the locks are for: several processes change one address book, first without locks and then with them. Then
// one process is stopped while it holds a lock; it takes back what it wrote too late.
//
//	go run ./demo
//
// Adders add contacts to categories. Deleters delete categories that have no contact. Contacts and categories are documents of
// two collections, so no single command covers both. Without locks a deleter can run between an adder's look at the category and
// its insert. That leaves a dangling reference: a contact of a category that doesn't exist.
//
// With locks the processes call the two functions of examples/contact, as they are there to copy. The locks are in the
// categories' own documents. An adder holds "read" while it inserts; a deleter holds "write". Many adders work at the same time.
// A deleter keeps new adders out, waits for the present ones, and then works alone.
//
// The program exits with status 1 if one of its three parts doesn't end as it should:
//
//  1. Adders and deleters in several processes, without locks: a full scan finds dangling references.
//  2. The same with locks: a full scan finds none.
//  3. A late write: an adder's process is stopped until its lease has expired, and a deleter has deleted the category. Then the
//     process goes on. Its insert is late: a lock in the category can't stop it. The adder learns from the error of its call that
//     the lock was lost, and undoes the insert.
package main
