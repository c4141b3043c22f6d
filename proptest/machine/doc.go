// Package machine runs the protocol's model beside the real server: random
// sequences of commands, on documents of many shapes and under tables of many
// kinds, after each of which the outcome and the whole stored lock field must
// equal the model's. A sequence that fails is shrunk.
//
// There are two machines. [Engine] sends each of the protocol's commands
// through the engine, right and wrong: repeats, late duplicates, old tokens,
// old write numbers. [API] goes through the public packages: lockers, tickets
// and leases, and what their holders believe.
//
// Time is driven by hand, the server's and the clients', and so it stands
// still, goes to the very millisecond of an expiry, and steps back. Between the
// commands a stranger deletes the document, erases the lock, or saves an old
// one back.
//
// How to read it: check.go has the entry points, place.go the document on the
// server with the model's beside it. stored.go, shapes.go and tables.go go
// between the two worlds. engine.go, guarded.go and handoffs.go are the first
// machine; api.go, tickets.go, leases.go and heirs.go the second.
//
// Where the protocol's text leaves something open, what is compared is
// normalised; see open.go.
package machine
