// Demo shows what the locks are for. It exits with status 1 if one of its three parts doesn't end as it should:
//
//  1. Several processes change one address book without locks. A full scan finds dangling references: contacts of a category that
//     doesn't exist. Contacts and categories are documents of two collections, so no single command covers both.
//  2. The same with locks, by the two functions of examples/contact, as they are there to copy: a full scan finds none.
//  3. A late write: an adder's process is stopped until its lease has expired, and a deleter has deleted the category. Then the
//     process goes on. Its insert is late: a lock in the category can't stop it. The adder learns from the error of its call that
//     the lock was lost, and undoes the insert.
//
// This runs it, and it says what its processes do:
//
//	go run ./demo
package main
