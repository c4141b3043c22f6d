package mutants

// shares let local holders have an entry in common that they must not, or in
// another way than they may.
var shares = []Mutant{{
	Name: "a tag that respects itself is shared", Rule: 21,
	Why:  "two writers of one process hold at the same time",
	File: "relations/share.go", Tests: "^TestRule21SharingIsSound$", Packages: inRelations,
	Old: `if r[tag][tag].Kind != None {`,
	New: `if r[tag][tag].Kind == Assertive {`,
}, {
	Name: "a tag is shared although a tag that it respects ignores it", Rule: 21,
	Why:  "a holder that is let in beside the entry meets a holder that joins it",
	File: "relations/share.go", Tests: "^TestRule21SharingIsSound$", Packages: inRelations,
	Old: `from.Kind != None && to.Kind == None`,
	New: `from.Kind != None && to.Kind == None && r[other][other].Kind == None`,
}, {
	Name: "a tag that is counted is shared", Rule: 21,
	Why:  "a tag that tolerates some of its entries finds one entry in place of many holders",
	File: "relations/share.go", Tests: "^TestRule21SharingIsSound$", Packages: inRelations,
	Old: `if to.Allow > 0 {`,
	New: `if to.Allow > 1 {`,
}, {
	Name: "the first holder to leave releases the entry", Rule: 21,
	Why:  "a writer is let in beside the other readers",
	File: "internal/lease/sharing.go", Tests: "^TestRule21LocalHoldersShareAnEntry$", Packages: inLocker,
	Old: `case len(s.holders) > 1 && s.check() == nil:`,
	New: `case len(s.holders) > 1000:`,
}, {
	Name: "an entry that is being released is joined", Rule: 21,
	File: "internal/lease/sharing.go", Tests: "^TestAHoldThatIsBeingReleasedIsNotJoined$", Packages: inHold,
	Old: `if !s.shared || s.phase != held {`,
	New: `if !s.shared {`,
}, {
	Name: "holders join past a waiter that was seen", Rule: 21,
	File: "internal/waitqueue/shared.go", Tests: "^TestRule21AWaiterIsSeenByOthers$", Packages: inLocker,
	Old: `delete(d.shared, tag)
		} else {`,
	New: `_ = s
		} else {`,
}, {
	Name: "a joined lease is valid for a fresh TTL", Rule: 21,
	Why:  "a writer is let in while the joined lease is still valid",
	File: "internal/lease/handle.go", Tests: "^TestAHoldEndsForAllItsHolders$", Packages: inHold,
	Old: `return max(0, h.hold.left())`,
	New: `if h.hold.shared {
		return h.hold.engine.Lease(h.hold.grant.Tag)
	}
	return max(0, h.hold.left())`,
}}
