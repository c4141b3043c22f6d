// Package engine is the protocol: the layout in the document, the decision as
// an aggregation expression, the commands, and what their answers mean. Each
// command is one round trip. The engine has no goroutines, keeps no state
// between commands, repeats nothing and knows no public error.
//
// The commands, all on the primary with majority write concern:
//
//	acquire            own entry there: extended in place; refused: nothing;
//	                   blocked by assertive relations only: joins as waiting; free: held
//	confirm            a waiting entry is granted, or its waiting extended; never created
//	renew              filter: own entry with its token; extended
//	release            filter: own entry; removed
//	write              filter: own entry with its token, not yet numbered k; the caller's update, and k
//	write-and-release  filter: own entry with its token; the caller's update, entry removed, id remembered
//	delete             filter: own entry with its token; the document and its lock are deleted
//
// Some rules look fussy; each keeps two holders apart, and has a test of its
// name in rules_test.go:
//
//   - An entry is always matched by id and token: a late duplicate of an
//     acquire can bring an id back, never a token.
//   - An expiry only moves forward: an older command may arrive after a newer.
//   - A repeat extends what it finds, so that the attempt that was answered is
//     the one that the holder's belief may count from.
//   - Grants and joins prune what has expired, so that an expired holder's
//     guard can't pass beside a new holder.
//   - A confirm is blocked by cooperative relations too, and by unknown tags,
//     where the other entry is held or earlier; and by nothing later, so that
//     no two entries wait for each other.
//   - Every grant and every join takes the next number.
//   - A guarded write is numbered in the entry: a repeat is not applied twice.
package engine
