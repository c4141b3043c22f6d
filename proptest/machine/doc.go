// Package machine runs the protocol's model beside the real server. It executes
// random sequences of commands on documents of many shapes and under many kinds
// of rules. After each command the outcome and the whole stored lock field must
// equal the model's. A sequence that fails is shrunk.
//
// [Engine] sends each of the protocol's commands through the engine, correct and wrong
// ones: repeats, late duplicates, old fences, old write numbers. What the public packages
// make of these commands is for package simulation.
//
// The machine sets the time by hand. So time
// stands still, goes to the very millisecond of an expiry, and steps back.
// Between the commands an outside writer deletes the document, erases the lock,
// or saves an old one back.
//
// How to read it: check.go has the entry points, place.go the document on the
// server with the model's beside it. stored.go, shapes.go and rules.go convert
// between the two. engine.go, guarded.go, handoffs.go, tokens.go and downgrades.go have
// the steps.
//
// The comparison allows for everything that the protocol's text leaves open;
// see open.go.
package machine
