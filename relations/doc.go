// Package relations holds the tables that say how the locks of a document
// treat each other. A lock has a tag, a free name such as "read" or "write",
// and a table gives each tag its relations to tags, itself included:
//
//	rules := relations.Rules{
//		"read":  {"write": {Kind: relations.Cooperative}},
//		"write": {"read": {Kind: relations.Assertive}, "write": {Kind: relations.Cooperative}},
//	}
//
// This is [WritePreferring], one of the presets; where none of them fits,
// write your own. The package is about tables alone, it locks nothing:
// packages multilock and writelock do.
//
// # Vocabulary
//
// A lock that was asked for is an entry in the document. It is held once the
// lock was granted, and waiting before that, if it may wait at all. An entry
// that is held or waiting, and has not expired, is live. What happens when a
// lock arrives and live entries are there is up to the relation of its tag to
// theirs:
//
//   - cooperative: it is refused and leaves no trace. Whoever asked may ask
//     again, but has no place in a queue.
//   - assertive: it joins as a waiting entry, which keeps back whoever
//     respects its tag, and is granted once the entries in its way have gone:
//     those that are held, and those that arrived before it.
//   - none, the zero [Relation]: it ignores them.
//
// Cooperative goes before assertive: who is refused for one entry does not
// wait for another. When a waiting entry is about to be granted, cooperative
// relations block it as assertive ones do.
//
// A relation tolerates Allow entries of the other tag, 0 unless said, and has
// an effect from the next one on. So "assertive to itself, allow n-1" is a
// semaphore of n: see [Semaphore].
//
// The words cooperative and assertive, and the idea of the table, are those of
// monglock, a library for Node.js; Allow is not, and monglock warns of tables
// that make two locks wait for each other. Here every table is free of
// deadlocks, because a waiting entry waits only for held and for earlier ones:
// tags that are assertive to each other, or to themselves, are served in the
// order of arrival.
//
// # Choosing a table
//
//	Exclusive         one at a time; whoever comes second tries again
//	Semaphore         n at a time, the others in a queue
//	ReadPreferring    many readers or one writer; writers take what is left
//	WritePreferring   many readers or one writer; a waiting writer stops new readers
//	Fair              many readers or one writer, in a queue
//	MultiGranularity  intentions below, shared and exclusive locks above
//
// # Checking a table
//
// [Rules.Validate] finds what can't be meant. [Rules.Starvations] and
// [Rules.Asymmetries] find what may not be meant: who can be kept out for
// ever, and who is let in beside a lock that would not have been let in beside
// him. [Rules.Matrix] and [Rules.Mermaid] draw the table. As JSON, Rules are
// monglock's lockRelationships.
package relations
