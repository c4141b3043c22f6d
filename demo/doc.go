// Demo shows what the locks are for: several processes change one address book, first without locks and then with them. Then
// one process is stopped while it holds a lock; it takes back what it wrote too late.
//
//	go run ./demo
//
// Adders put the id of a category on a contact. Deleters take the id of a category off all contacts, and then delete the
// category. Contacts and categories are documents of two collections, so no single command covers both. Without locks a deleter
// can run between an adder's look at the category and its write to the contact. That leaves a dangling reference: a contact
// with the id of a deleted category.
//
// The locks are in the categories' own documents. An adder holds "read" while it looks and writes; a deleter holds "write". Many
// adders work at the same time. A deleter keeps new adders out, waits for the present ones, and then works alone.
//
// The program runs three parts, and exits with status 1 if one of them doesn't end as it should:
//
//  1. Adders and deleters in several processes, without locks: a full scan finds dangling references.
//  2. The same with locks: a full scan finds none.
//  3. A late write: an adder's process is stopped (SIGSTOP) until its lease has expired, and a deleter has deleted the category.
//     Then the process is continued (SIGCONT). Its write is late and leaves a dangling reference, for a lock in the category
//     can't stop a write to a contact. The adder learns from the error of its call that the lock was lost, and removes the
//     reference.
//
// adder.go and deleter.go have the operations, each without a lock and with one. This program imports internal packages of the
// repository, to start a server by itself; the program to copy from is examples/contact.
package main
