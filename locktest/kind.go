package locktest

import (
	"bytes"

	"github.com/doclock/doclock/locktest/internal/value"
)

// Kind is a kind of command. A command can be of several: UpdateAndRelease is a
// write and a release.
type Kind uint8

// The kinds of commands.
const (
	// Acquires may grant a lease, or give a place in the document queue: those of
	// Acquire, TryAcquire, Enqueue, Ticket.Confirm, Resume and Convert, and the
	// look-ups of claims.
	Acquires Kind = 1 << iota

	// Renewals extend a lease, or the time of a token: those of kept leases, Renew
	// and Touch.
	Renewals

	// Writes are sent under the guard: those of Update, UpdateAndRelease and Delete,
	// and the program's own with Lease.Guard in the filter.
	Writes

	// Releases end a lease: those of Release, UpdateAndRelease, Delete and Detach. The
	// same command may hand the lock over to a waiter of the Locker.
	Releases

	// CleanUps remove entries that no lease has: those of failed acquires, in the
	// background, and of cancelled tickets; and what an operator removes.
	CleanUps

	// Transactions are what WithTransaction sends beside its function's own commands, the
	// commits and aborts of all transactions, and the settles of those who come after it.
	Transactions

	// Others are all other commands: the program's own, and the reads and upserts of
	// the library.
	Others
)

// byComment are the kinds of the library's commands, which say what they are for.
var byComment = map[string]Kind{
	"doclock acquire": Acquires, "doclock confirm": Acquires, "doclock claim": Acquires, "doclock resume": Acquires, "doclock convert": Acquires,
	"doclock renew": Renewals, "doclock touch": Renewals,
	"doclock update": Writes, "doclock delete": Writes | Releases,
	"doclock release": Releases, "doclock handoff": Releases, "doclock detach": Releases,
	"doclock mark": Transactions, "doclock fence": Transactions, "doclock transaction": Transactions, "doclock settle": Transactions,
	"doclock clean-up": CleanUps, "doclock admin": CleanUps,
}

// kindsOf reads the kinds of a command. One with a comment of the program's own, or of the program itself, is a write if
// its filter has a guard; an update that marks a k as done ends a lease too.
func kindsOf(command value.Document) Kind {
	kinds, ours := byComment[value.Text(command.Get("comment"))]
	switch {
	case ends(command):
		return Transactions
	case !ours && has(command, "$elemMatch") && has(command, "fence"):
		kinds = Writes
	case !ours, kinds == CleanUps && command[0].Key == "find":
		return Others
	}
	if kinds == Writes && has(command, ".done") {
		kinds |= Releases
	}
	return kinds
}

// has reports whether a field has this name, or one that ends with it, anywhere.
func has(command value.Document, name string) bool {
	return bytes.Contains(command.Close().Value, append([]byte(name), 0))
}
