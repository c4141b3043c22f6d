// Package machine runs the protocol's model beside the real server. It executes
// random sequences of commands on documents of many shapes and under many kinds
// of rules. After each command the outcome and the whole stored lock field must
// equal the model's. A sequence that fails is shrunk.
//
// [Engine] sends each of the protocol's commands through the engine, correct and wrong
// ones: repeats, late duplicates, old fences, old write numbers. What the public packages
// make of these commands is for package simulation.
//
// The machine sets the time by hand. So time stands still, goes to the very
// millisecond of an expiry, and steps back. Between the commands an outside
// writer deletes the document, erases the lock, or saves an old one back.
//
// How to read it: place.go has the entry points, has the document on the
// server with the model's beside it, and converts between the two. shapes.go draws
// documents and rules. engine.go and guarded.go have the steps.
//
// The protocol's text leaves these points open, and they are compared as
// follows:
//
//   - The order of the tags in `tags` has no meaning: they are compared sorted.
//   - An absent `tags`, an empty one and null are the same, as are an absent
//     `fence`, null and 0, and an array of a tag and null. (Not so an empty array
//     and none: joins, grants and confirms drop the emptied.)
//   - The outcome of a release without a fence (a clean-up's) only tells
//     whether the entry was present.
//   - A conversion has no filter: of a field that is not a lock it is answered with
//     that, where the model says that the entry is lost.
//   - Integers may be stored as any of BSON's numbers, but for a new lock.fence,
//     which is a Long.
package machine
