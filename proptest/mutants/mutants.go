package mutants

// Mutant is one seeded fault.
type Mutant struct {
	Name string // what the mutated library does wrong
	Rule int    // the protocol's rule that it breaks, or none of them
	Why  string // the effect on the user, unless the rule's row in docs/protocol.md has it
	File string // from the module's root

	Old, New string // what the file must have exactly once, and what replaces it
	More     []Edit // further replacements

	Tests    string   // the pattern of the tests that are expected to notice
	Packages []string // the first has these tests; the tests of all run before it has survived
}

// Edit is one replacement.
type Edit struct{ Old, New string }

// Rules is the number of the protocol's rules.
const Rules = 27

// All are the mutants.
func All() []Mutant {
	var all []Mutant
	for _, some := range [][]Mutant{decisions, commands, writes, failures, leases, renewals, acquires, handoffs, shares, operators, several, claims, terms, tokens, downgrades, promises} {
		all = append(all, some...)
	}
	return all
}

const (
	enginePkg = "./internal/engine"
	leasePkg  = "."
	holdPkg   = "./internal/lease"
	lockerPkg = "./multilock"
)

var (
	inEngine    = []string{enginePkg, lockerPkg}
	inAttempt   = []string{"./internal/attempt", leasePkg, lockerPkg}
	inLease     = []string{leasePkg, holdPkg, lockerPkg}
	inHold      = []string{holdPkg, leasePkg, lockerPkg}
	inMachine   = []string{"./proptest/machine"}
	inQueue     = []string{"./internal/waitqueue"}
	inClaims    = []string{"./internal/claims"}
	inLocker    = []string{lockerPkg}
	inRelations = []string{"./relations"}
	inAdmin     = []string{"./admin"}
	inWriteLock = []string{"./writelock"}
)
