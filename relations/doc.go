// Package relations holds the rules that say how the locks of a document treat each other.
// A lock has a tag, a free name such as "read" or "write". The rules give each tag its
// relations to other tags and to itself:
//
//	rules := relations.Rules{
//		"read":  {"write": {Kind: relations.Cooperative}},
//		"write": {"read": {Kind: relations.Assertive}, "write": {Kind: relations.Cooperative}},
//	}
//
// These are the rules of [WritePreferring]. If no preset fits, write your own. This package
// only describes rules; packages multilock and writelock do the locking.
//
//	Exclusive         one at a time; a second one is refused and tries again
//	Semaphore         n at a time, the others in a queue
//	ReadPreferring    many readers or one writer; writers take what is left
//	WritePreferring   many readers or one writer; a waiting writer stops new readers
//	Fair              many readers or one writer, in a queue
//	MultiGranularity  intentions below, shared and exclusive locks above
//
// # What a relation does
//
// A lock that was asked for is an entry in the document, waiting or held, and live until it
// expires. If a lock arrives while other entries are live, the relation of its tag to their
// tags decides:
//
//   - cooperative: the lock is refused and leaves no trace. Its client may ask again, but
//     has no place in a queue.
//   - assertive: the lock joins as a waiting entry, which blocks tags that have a relation
//     to its tag. It is granted when the entries that block it have left: the held ones,
//     and those that arrived before it.
//   - none, the zero [Relation]: the lock ignores them.
//
// Cooperative goes before assertive: a lock that one entry refuses does not wait for another
// one. Cooperative relations block a waiting entry as assertive ones do. A relation has an
// effect if there are more than Allow entries of the other tag; Allow is 0 by default. So
// "assertive to itself, allow n-1" is a semaphore of n.
//
// No rules can deadlock, because a waiting entry waits only for held and for earlier
// entries. Tags that are assertive to each other, or to themselves, are served in turn: a
// process serves its waiters in the order of arrival, and has one place in the document's
// queue for them, which it takes anew each time. So a waiter of another process comes before
// most of many that wait in one.
//
// # The same rules everywhere
//
// All programs that lock the same documents must have the same rules: each acquire is
// decided by the rules of its own program. An entry of a tag that they don't have keeps it
// out. But nothing compares the relations of the tags that both have: beside a Semaphore of
// 3, one with a Semaphore of 5 is granted a fourth and a fifth place. To change rules, give
// the tags new names, or stop the old programs first.
//
// # Checking rules
//
// [Rules.Validate] finds mistakes. [Rules.Starvations] finds tags that can be kept out for
// ever. [Rules.Asymmetries] finds pairs of tags that can be held together after one order of
// arrival, but not after the other. [Rules.Matrix] draws the rules. As JSON, Rules have the
// form of monglock's lockRelationships. The command "doclock rules" does all this.
package relations
