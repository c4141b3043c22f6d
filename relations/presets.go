package relations

// Exclusive is one tag, "write", cooperative with itself. There is one holder
// at a time; an arrival during that time is refused and tries again. Package
// writelock uses these rules.
//
// Starvation: arrivals are not ordered, so an unlucky "write" can lose to
// others without end. Choose it for short critical sections with few
// contenders. Semaphore(1) is the same lock with a queue.
func Exclusive() Rules {
	return Rules{
		"write": {"write": {Kind: Cooperative}},
	}
}

// ReadPreferring is a lock of many readers or one writer, without waiting
// entries in the document: "read" is cooperative with "write", and "write" with
// both.
//
// Starvation: overlapping readers can keep a writer out for ever, and other
// writers can too. Writers that follow each other closely can keep a reader
// out. Choose it if writes are rare, or may be delayed.
func ReadPreferring() Rules {
	return Rules{
		"read":  {"write": {Kind: Cooperative}},
		"write": {"read": {Kind: Cooperative}, "write": {Kind: Cooperative}},
	}
}

// WritePreferring is a lock of many readers or one writer. A writer that waits
// for the present readers keeps new readers out: "read" is cooperative with
// "write"; "write" is cooperative with itself and assertive to "read". It is
// the example in monglock's documentation.
//
// Starvation: a waiting writer is granted when the readers before it have left,
// and nobody overtakes it. Writers that follow each other can refuse a reader
// for ever. They can also refuse another writer for ever, if one is there each
// time it arrives. Choose it if reads are many and writes few, but a write
// should not be delayed.
func WritePreferring() Rules {
	return Rules{
		"read":  {"write": {Kind: Cooperative}},
		"write": {"read": {Kind: Assertive}, "write": {Kind: Cooperative}},
	}
}

// Fair is a lock of many readers or one writer with a queue: "read" is
// assertive to "write", and "write" to both. All are served in turn (see
// the package), and readers next to each other in the queue hold together.
//
// Starvation: none. Choose it if everybody must get the lock in the end. The
// price: a reader that arrives after a waiting writer waits too, even while
// only readers hold.
func Fair() Rules {
	return Rules{
		"read":  {"write": {Kind: Assertive}},
		"write": {"read": {Kind: Assertive}, "write": {Kind: Assertive}},
	}
}

// Semaphore is one tag, "slot", with at most n holders at a time; the others
// wait, in turn (see the package). Semaphore(1) is an exclusive lock with a queue.
//
// Starvation: none. Choose it to limit how many work on a document at once. All
// programs must give the same n: one with a greater n lets in more.
//
// An n below 1, or above MaxAllow+1, makes rules that Validate refuses.
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
// "S" and "X" share or exclude the document and everything below it. "IS" and
// "IX" announce such a lock on something below; "SIX" is "S" and "IX" in one.
// The library doesn't know which document is above which. The caller must take the
// intention above before the lock below.
//
// Starvation: every tag can be kept out by tags that are compatible with each
// other but not with it: "X" by any, "S" and "SIX" by many "IX", "IX" by many
// "S", and "IS" by a succession of "X". Choose it if some clients work on a
// whole tree and others on parts of it.
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
