package mutants

// Mutant is one seeded fault.
type Mutant struct {
	Name  string // what the mutated library does wrong
	Rule  int    // the protocol's rule that it breaks, 0 for none of them
	Why   string // the effect on the user
	File  string // from the module's root
	Edits []Edit

	Tests    string   // the pattern of the tests that are expected to notice
	Packages []string // the first has these tests; the tests of all run before it has survived
}

// Edit replaces a text that the file must have exactly once.
type Edit struct{ Old, New string }

// Rules is the number of the protocol's rules.
const Rules = 26

// All are the mutants.
func All() []Mutant {
	var all []Mutant
	for _, some := range [][]Mutant{decisions, commands, writes, failures, leases, renewals, acquires, waitQueues, handoffs, shares, options, relationRules, values, servers, cleanups, unreachable, operators, several, claims, terms, tokens, downgrades, observers, storms} {
		all = append(all, some...)
	}
	return all
}

// Quick is a few of them, from all parts of the library.
func Quick() []Mutant {
	var some []Mutant
	for _, m := range All() {
		switch m.Name {
		case "guard without the fence",
			"an expiry may move backwards",
			"validity counts from the renewal's reply",
			"a retried acquire takes a new id",
			"starvation: an overtaker may ignore itself":
			some = append(some, m)
		}
	}
	return some
}

const (
	enginePkg    = "./internal/engine"
	attemptPkg   = "./internal/attempt"
	leasePkg     = "."
	holdPkg      = "./internal/lease"
	queuePkg     = "./internal/waitqueue"
	lockerPkg    = "./multilock"
	relationsPkg = "./relations"
	adminPkg     = "./admin"
)

var (
	inEngine    = []string{enginePkg, lockerPkg}
	inAttempt   = []string{attemptPkg, leasePkg, lockerPkg}
	inLease     = []string{leasePkg, holdPkg, lockerPkg}
	inHold      = []string{holdPkg, leasePkg, lockerPkg}
	inQueue     = []string{queuePkg}
	inClaims    = []string{"./internal/claims"}
	inObserver  = []string{"./internal/observe"}
	inStorm     = []string{"./proptest/storm"}
	inLocker    = []string{lockerPkg}
	inRelations = []string{relationsPkg}
	inAdmin     = []string{adminPkg}
	inWriteLock = []string{"./writelock"}
)

func swap(was, becomes string) []Edit { return []Edit{{was, becomes}} }
