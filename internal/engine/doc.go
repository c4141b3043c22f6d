// Package engine is the protocol: the layout in the document, the decision as
// an aggregation expression, the commands, and the meaning of their answers.
// Each command is one round trip. The engine has no goroutines, keeps no state
// between commands, repeats no command and knows no public error.
//
// The commands, all on the primary with majority write concern:
//
//	acquire            own entry present: extended in place; refused: nothing;
//	                   blocked by assertive relations only: joins as waiting; free: held
//	confirm            a waiting entry is granted, or its waiting extended; never created
//	renew              filter: own entry with its fencing token; extended
//	release            filter: own entry; removed, or left as a remainder
//	write              filter: own entry with its fencing token, not yet numbered k; the caller's update, and k
//	write-and-release  filter: own entry with its fencing token; the caller's update, entry removed, id remembered
//	delete             filter: own entry with its fencing token; the document and its lock are deleted
//	detach             filter: own entry with its fencing token; it gets a key, and is extended
//	resume             filter: a held entry with the key; it gets a new id and a new fencing token
//	touch              filter: a held entry with the key; extended
//	downgrade          own entry with its fencing token, and a new one would be granted without it: the
//	                   new one takes its place; else its number is set
//
// For an operator ([Engine.Find], [Engine.Survey], [Engine.RemoveExactly],
// [Engine.RemoveEach], [Engine.DeleteIdle]): entries of anybody are read, and
// removed by tag, id and fencing token; idle lock-only documents are deleted.
//
// Some rules look fussy. Each one keeps two holders apart, and has a test with
// its name in rules_test.go:
//
//   - An entry is always matched by id and fencing token: a late duplicate of an
//     acquire can bring an id back, never a fencing token.
//   - An expiry only moves forward: an older command may arrive after a newer.
//   - A repeat extends what it finds, so that the attempt that was answered is
//     the one that the holder's validity is counted from.
//   - Grants and joins prune what has expired, so that an expired holder's
//     guard can't pass beside a new holder.
//   - A confirm is blocked by cooperative relations and by unknown tags too,
//     if the other entry is held or earlier. No later entry blocks it, so
//     that no two entries wait for each other.
//   - Every grant and every join takes the next value of lock.fence.
//   - A release before the time that the grant wrote down leaves a remainder,
//     under an id that no late command of the lease matches.
//   - A guarded write is numbered in the entry: a repeat is not applied twice.
package engine
