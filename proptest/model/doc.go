// Package model is the locking protocol in plain, pure Go: a second
// implementation, written from the protocol's text alone. Tests compare the
// library with it. It shares no code and no clock with the library.
//
// A [Document] is a value. Every command of the protocol is a method of
// [Protocol]. It takes a document, the command's arguments and the server's
// time, and returns the document after the command, the [Outcome], and the
// image: the document that the client receives, from before or after the
// command, or nil if nothing matched. Commands never change the document that
// they are given. A nil document means that there is none. Times and durations
// are integers (read them as milliseconds). Ids are integers; 0 is none.
//
//	var p model.Protocol // the zero value is the protocol as written
//	d, outcome, image := p.Acquire(d, request, model.Queue, now)
//
// How to read it: document.go has the layout, relations.go the relations, and the
// decision on arrivals and confirms. commands.go has one function for each row of the
// protocol's table of commands, and the handoff as the library does it: a release and the
// successor's request, as two stages of one command. [Without] lists the rules of the
// protocol that can be left out, so that tests can show that they would notice. What each
// command leaves in the document is compared with the library's by package machine, and
// has no test here.
//
// Which tags can be overtaken for ever is decided by rules alone: package
// relations compares its formula with a search of its own.
//
// The rest is the proof, and no part of the API. world.go is a network that loses and
// delays messages, and the servers' clocks, cluster.go a replica set, and config.go the
// limits of a world. client.go, message.go and answers.go are the clients. step.go executes
// the steps. properties.go has the properties. search.go searches every interleaving. The
// tests run all this: exhaustively over all rules of two tags, at random over larger ones,
// and once for each rule of the protocol without that rule. DOCLOCK_MODEL lengthens the
// tests.
//
// Limits of the model: it does not know lock fields that are malformed in part
// (a foreign lock field is opaque, no command matches it), or projections.
package model
