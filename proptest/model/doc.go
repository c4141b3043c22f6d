// Package model is the locking protocol as plain, pure Go: a second
// implementation, written from the text of the protocol alone, for tests to
// compare the library with. It shares no code and no clock with the library.
//
// A [Document] is a value. Every command of the protocol is a method of
// [Protocol] that takes a document, the command's arguments and the server's
// time, and returns the document after the command, the [Outcome], and the
// [Image] that the client would be shown. Commands never change the document
// that they are given; nil stands for "no such document". Times and durations
// are integers (read them as milliseconds), ids are integers, 0 is "none".
//
//	var p model.Protocol // the zero value is the protocol as written
//	d, outcome, image := p.Acquire(d, request, model.Queue, now)
//
// How to read it: document.go has the layout, table.go the relations,
// judge.go the decision who may be let in, and commands.go and writes.go one
// function for each row of the protocol's table of commands. handoff.go has
// the handoff, not as that table's row but as the library does it: a release,
// and what the heir asks, as two stages of one command.
// foreign.go is what strangers do to the document. [Without] lists the rules
// that can be left out, so that tests can show that they would notice.
//
// starvation.go has the protocol's formula for who can be overtaken for ever.
//
// The rest is the proof, and no part of the API. world.go is a network that
// loses and delays, and a clock; client.go, answers.go and endings.go are
// clients with beliefs; step.go moves it all. properties.go says what must
// hold; search.go walks every interleaving, and key.go tells its states
// apart. queues.go decides starvation by search. The tests run all this:
// exhaustively over every table of two tags, at random over larger ones, and
// once for each rule with that rule left out. DOCLOCK_MODEL=full,
// DOCLOCK_MODEL_SCALE, DOCLOCK_MODEL_STEPS and -rapid.checks lengthen it.
//
// What the model can't say: it knows nothing of fields of the lock that are
// malformed in part (a foreign lock field is opaque, no command matches it),
// of projections, or of stale reads.
package model
