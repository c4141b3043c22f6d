package relations

// Exclusive is one tag, "write", cooperative with itself: one holder at a
// time, and who comes while it holds is refused and tries again. It is the
// table of package writelock.
//
// Starvation: arrivals are not ordered, so an unlucky "write" can lose to
// others without end. Choose it for short critical sections with few
// contenders; Semaphore(1) is the same lock with a queue.
func Exclusive() Rules {
	return Rules{
		"write": {"write": {Kind: Cooperative}},
	}
}

// ReadPreferring is a lock of many readers or one writer, in which nobody
// waits in the document: "read" is cooperative with "write", and "write" with
// both.
//
// Starvation: readers that overlap keep a writer out for ever, and so do other
// writers; writers that follow each other closely can keep a reader out.
// Choose it where writes are rare, or may be put off.
func ReadPreferring() Rules {
	return Rules{
		"read":  {"write": {Kind: Cooperative}},
		"write": {"read": {Kind: Cooperative}, "write": {Kind: Cooperative}},
	}
}

// WritePreferring is a lock of many readers or one writer, in which a writer
// keeps new readers out while it waits for those inside: "read" is cooperative
// with "write"; "write" is cooperative with itself and assertive to "read".
// It is the example of monglock's documentation.
//
// Starvation: a writer that waits is granted once the readers before it have
// left, and nobody overtakes it. A reader can be refused for ever by writers
// that follow each other, and so can a writer that finds another one each
// time it arrives. Choose it where reads are many and writes few, but a write
// should not be put off.
func WritePreferring() Rules {
	return Rules{
		"read":  {"write": {Kind: Cooperative}},
		"write": {"read": {Kind: Assertive}, "write": {Kind: Cooperative}},
	}
}

// Fair is a lock of many readers or one writer with a queue: "read" is
// assertive to "write", and "write" to both. All are served in the order of
// arrival, and readers that stand side by side in it hold together.
//
// Starvation: none. Choose it where everybody must get the lock in the end;
// the price is that a reader that arrives after a waiting writer waits too,
// even while only readers hold.
func Fair() Rules {
	return Rules{
		"read":  {"write": {Kind: Assertive}},
		"write": {"read": {Kind: Assertive}, "write": {Kind: Assertive}},
	}
}

// Semaphore is one tag, "slot", of which at most n hold at a time; the others
// wait in the order of arrival. Semaphore(1) is an exclusive lock with a queue.
//
// Starvation: none. Choose it to bound how many work on a document at once.
//
// An n below 1, or above MaxAllow+1, makes a table that Validate refuses.
func Semaphore(n int) Rules {
	return Rules{
		"slot": {"slot": {Kind: Assertive, Allow: max(n, 0) - 1}},
	}
}

// MultiGranularity has the five modes of Gray's granularity of locks (Gray,
// Lorie, Putzolu and Traiger: "Granularity of Locks in a Shared Data Base",
// 1975), each cooperative with the modes that are incompatible with it:
//
//	       IS    IX    S     SIX   X
//	IS     yes   yes   yes   yes   -
//	IX     yes   yes   -     -     -
//	S      yes   -     yes   -     -
//	SIX    yes   -     -     -     -
//	X      -     -     -     -     -
//
// "S" and "X" share or exclude the document and all that lies below it. "IS"
// and "IX" announce such a lock on something below; "SIX" is "S" and "IX" in
// one. The library locks one document at a time: that the intention is taken
// above before the lock below is the caller's part.
//
// Starvation: everybody can be kept out by those who are compatible with each
// other and not with them: "X" by any, "S" and "SIX" by a crowd of "IX", "IX"
// by a crowd of "S", and "IS" by a succession of "X". Choose it where some
// work on the whole of a tree, others on parts of it.
func MultiGranularity() Rules {
	incompatible := Relation{Kind: Cooperative}
	return Rules{
		"IS":  {"X": incompatible},
		"IX":  {"S": incompatible, "SIX": incompatible, "X": incompatible},
		"S":   {"IX": incompatible, "SIX": incompatible, "X": incompatible},
		"SIX": {"IX": incompatible, "S": incompatible, "SIX": incompatible, "X": incompatible},
		"X":   {"IS": incompatible, "IX": incompatible, "S": incompatible, "SIX": incompatible, "X": incompatible},
	}
}
