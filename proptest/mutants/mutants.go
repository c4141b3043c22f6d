package mutants

// Mutant is one seeded fault.
type Mutant struct {
	Name  string // what the mutated library does wrong
	Rule  int    // the protocol's rule that it breaks, 0 for none of them
	Why   string // what goes wrong for the user
	File  string // from the module's root
	Edits []Edit

	Tests    string   // the pattern of the tests that are expected to notice
	Packages []string // the first has these tests; all are asked before it has survived
}

// Edit replaces a text that the file must have exactly once.
type Edit struct{ Old, New string }

// Rules is the number of the protocol's rules.
const Rules = 22

// Unbuilt are the rules about what the library doesn't do yet.
var Unbuilt = []int{12, 15, 16, 17, 21}

// All are the mutants.
func All() []Mutant {
	var all []Mutant
	for _, some := range [][]Mutant{decisions, commands, writes, failures, leases, renewals, acquires, tables} {
		all = append(all, some...)
	}
	return all
}

// Quick is a handful of them, from all floors of the library.
func Quick() []Mutant {
	var some []Mutant
	for _, m := range All() {
		switch m.Name {
		case "guard without the token",
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
	lockerPkg    = "./multilock"
	relationsPkg = "./relations"
)

var (
	inEngine    = []string{enginePkg, lockerPkg}
	inAttempt   = []string{attemptPkg, leasePkg, lockerPkg}
	inLease     = []string{leasePkg, lockerPkg}
	inLocker    = []string{lockerPkg}
	inRelations = []string{relationsPkg}
)

func swap(old, new string) []Edit { return []Edit{{old, new}} }

// decisions are judged wrongly by the server: the expressions of acquire and
// confirm.
var decisions = []Mutant{
	{
		Name: "nothing ever expires", Rule: 0,
		Why:  "a holder that crashed holds for ever",
		File: "internal/engine/expr.go",
		Edits: swap(`tests := []expr{call("$gt", "$$e."+expiresKey, d.now)}`,
			`tests := []expr{true}`),
		Tests: "^TestAcquireAtTheEdgeOfAnExpiry$", Packages: inEngine,
	},
	{
		Name: "expired entries of the own tag are kept", Rule: 5,
		Why:  "an expired guard passes beside the new holder",
		File: "internal/engine/expr.go",
		Edits: swap(`orElse("$$by."+d.tag, args{})`,
			`filter(orElse(d.own, args{}), "kept", call("$ne", "$$kept."+idKey, idValue(idPlaceholder)))`),
		Tests: "^TestAcquirePrunes$", Packages: inEngine,
	},
	{
		Name: "expired entries of other tags are kept", Rule: 5,
		Why:  "an expired reader's guard passes beside the writer",
		File: "internal/engine/expr.go",
		Edits: swap(`call("$mergeObjects", "$$by", bson.D{{Key: d.tag, Value: entries}})`,
			`call("$mergeObjects", d.lock+"."+tagsKey, bson.D{{Key: d.tag, Value: entries}})`),
		Tests: "^(TestAcquirePrunes|TestConfirmPrunesOthers)$", Packages: inEngine,
	},
	{
		Name: "a grant drops the other tags' live entries", Rule: 0,
		Why:  "holders lose a lock whose time is not up",
		File: "internal/engine/expr.go",
		Edits: swap(`call("$mergeObjects", "$$by", bson.D{{Key: d.tag, Value: entries}})`,
			`bson.D{{Key: d.tag, Value: entries}}`),
		Tests: "^TestAcquirePrunes$", Packages: inEngine,
	},
	{
		Name: "a grant prunes what is soon to expire", Rule: 0,
		Why:  "the tolerance for differences between clocks is gone, a holder is still within its time",
		File: "internal/engine/expr.go",
		Edits: swap(`call("$gt", "$$e."+expiresKey, d.now)`,
			`call("$gt", "$$e."+expiresKey, call("$add", d.now, 500))`),
		Tests: "^TestAcquireAtTheEdgeOfAnExpiry$", Packages: inEngine,
	},
	{
		Name: "an arrival ignores waiting entries", Rule: 0,
		Why:  "readers overtake a waiting writer for ever",
		File: "internal/engine/expr.go",
		Edits: swap(`	if allow == 0 {
		return "$$by." + tag // emptied tags are absent, and an array is true
	}
	return nth("$$by."+tag, allow)`,
			`	return nth(filter("$$by."+tag, "e", "$$e."+fenceKey), allow)`),
		Tests: "^(TestAcquireBlockedWaits|TestTryAcquireBlockedLeavesNothing)$", Packages: inEngine,
	},
	{
		Name: "a confirm ignores who is held and came later", Rule: 10,
		Why:  "a waiter is let in beside a holder that a table of preference let overtake it",
		File: "internal/engine/expr.go",
		Edits: swap(`return call("$or", e+"."+fenceKey, call("$lt", e+"."+seqKey, "$$own."+seqKey))`,
			`return call("$lt", e+"."+seqKey, "$$own."+seqKey)`),
		Tests: "^TestRule06", Packages: inEngine,
	},
	{
		Name: "a confirm waits for later entries", Rule: 10,
		Why:  "two waiters wait for each other for ever",
		File: "internal/engine/expr.go",
		Edits: swap(`return call("$or", e+"."+fenceKey, call("$lt", e+"."+seqKey, "$$own."+seqKey))`,
			`return true`),
		Tests: "^TestConfirmServesTheQueue$", Packages: inEngine,
	},
	{
		Name: "earlier goes by the clock and not by seq", Rule: 10,
		Why:  "two that arrived in one millisecond are let in together, or in the wrong order",
		File: "internal/engine/expr.go",
		Edits: swap(`call("$lt", e+"."+seqKey, "$$own."+seqKey))`,
			`call("$lt", e+"."+sinceKey, "$$own."+sinceKey))`),
		Tests: "^TestRule10OrderIsSeq$", Packages: inEngine,
	},
	{
		Name: "a confirm ignores cooperative relations", Rule: 6,
		Why:  "a waiter is let in beside a holder who ignores it and came during the wait",
		File: "internal/engine/expr.go",
		Edits: swap(`r.Kind != relations.None {`,
			`r.Kind == relations.Assertive {`),
		Tests: "^TestRule06", Packages: inEngine,
	},
	{
		Name: "a confirm makes the entry anew", Rule: 7,
		Why:  "a pruned waiter rejoins as the last in silence",
		File: "internal/engine/expr.go",
		Edits: swap(`own := nth(filter(d.own, "e", call("$eq", "$$e."+idKey, id)), 0)`,
			`own := orElse(nth(filter(d.own, "e", call("$eq", "$$e."+idKey, id)), 0), bson.D{{Key: idKey, Value: id}, {Key: seqKey, Value: d.next()}, {Key: sinceKey, Value: d.now}})`),
		Tests: "^TestConfirmWithoutEntryIsLost$", Packages: inEngine,
	},
	{
		Name: "who would not wait waits", Rule: 0,
		Why:  "a TryAcquire that failed leaves an entry that keeps others back",
		File: "internal/engine/engine.go",
		Edits: swap(`d.arrival(e.field, false, id, cfg.Owner)`,
			`d.arrival(e.field, true, id, cfg.Owner)`),
		Tests: "^TestTryAcquireBlockedLeavesNothing$", Packages: inEngine,
	},
	{
		Name: "a waiting entry lives as long as a held one", Rule: 0,
		Why:  "a waiter that died holds up the queue for a TTL",
		File: "internal/engine/expr.go",
		Edits: swap(`lease = cond("$$waits", d.wait, d.held)`,
			`lease = cond("$$waits", d.held, d.held)`),
		Tests: "^TestAcquireBlockedWaits$", Packages: inEngine,
	},
	{
		Name: "emptied tags stay", Rule: 0,
		Why:  "an unknown tag that nobody holds any more refuses everybody",
		File: "internal/engine/expr.go",
		Edits: swap(`filter(pruned, "t", nth("$$t.v", 0))`,
			`filter(pruned, "t", true)`),
		Tests: "^TestAcquireDropsEmptiedTags$", Packages: inEngine,
	},
	{
		Name: "an arrival ignores unknown tags", Rule: 8,
		Why:  "two programs with different tables are both let in",
		File: "internal/engine/expr.go",
		Edits: swap(`append(d.blockedBy(relations.Cooperative), not(call("$setIsSubset", "$$live.k", d.known())))`,
			`d.blockedBy(relations.Cooperative)`),
		Tests: "^TestUnknownTagInTheDocumentRefusesArrivals$", Packages: []string{lockerPkg, enginePkg},
	},
	{
		Name: "a confirm ignores unknown tags", Rule: 9,
		Why:  "a waiter is let in beside a program with another table that came during the wait",
		File: "internal/engine/expr.go",
		Edits: swap(`nth(filter("$$live", "t", unknown), 0)`,
			`nth(filter("$$live", "t", all(false, unknown)), 0)`),
		Tests: "^TestUnknownTagThatCameDuringTheWaitBlocksTheConfirm$", Packages: []string{lockerPkg, enginePkg},
	},
	{
		Name: "a confirm waits for later unknown tags", Rule: 9,
		Why:  "two programs with different tables wait for each other for ever",
		File: "internal/engine/expr.go",
		Edits: swap(`nth(filter("$$t.v", "e", counts("$$e")), 0))`,
			`nth("$$t.v", 0))`),
		Tests: "^TestRule09", Packages: inEngine,
	},
	{
		Name: "the number doesn't increase within a millisecond", Rule: 11,
		Why:  "two holders have one token, a late one's write is accepted",
		File: "internal/engine/expr.go",
		Edits: swap(`call("$add", d.lock+"."+fenceKey, 1)`,
			`call("$add", d.lock+"."+fenceKey, 0)`),
		Tests: "^TestConfirmCountsOn$", Packages: inEngine,
	},
	{
		Name: "a join takes no number", Rule: 11,
		Why:  "a compare-and-set misses the newcomer, and two waiters are equally early",
		File: "internal/engine/expr.go",
		Edits: swap(`var entered expr = d.put("$$next", bson.D{`,
			`var number expr = "$$next"
	if joins {
		number = cond("$$waits", d.lock+"."+fenceKey, "$$next")
	}
	var entered expr = d.put(number, bson.D{`),
		Tests: "^TestAcquireBlockedWaits$", Packages: inEngine,
	},
	{
		Name: "a confirm's grant leaves the last number as it was", Rule: 11,
		Why:  "the next holder gets the same token",
		File: "internal/engine/expr.go",
		Edits: swap(`granted := cond(call("$or", "$$waits", "$$own."+fenceKey), d.lock+"."+fenceKey, "$$next")`,
			`granted := call("$max", args{d.lock + "." + fenceKey})`),
		Tests: "^TestConfirmCountsOn$", Packages: inEngine,
	},
	{
		Name: "numbers begin again in a new document", Rule: 0,
		Why:  "deleted and made again, the document gives out old tokens",
		File: "internal/engine/expr.go",
		Edits: swap(`call("$toLong", d.now)})`,
			`1})`),
		Tests: "^TestAcquireFree$", Packages: inEngine,
	},
	{
		Name: "an expiry may move backwards", Rule: 2,
		Why:  "an older command that arrives late shortens a lease",
		File: "internal/engine/expr.go",
		Edits: swap(`return call("$max", args{entry + "." + expiresKey, call("$add", d.now, ms)})`,
			`return call("$max", args{call("$add", d.now, ms)})`),
		Tests: "^TestRule02", Packages: inEngine,
	},
	{
		Name: "a repeated acquire isn't extended", Rule: 3,
		Why:  "the holder counts from the second attempt, the server from the first",
		File: "internal/engine/expr.go",
		Edits: swap(`d.extended("$$e", ownLease)`,
			`cond(true, "$$e."+expiresKey, ownLease)`),
		Tests: "^TestAcquireHeldAgainExtends$", Packages: inEngine,
	},
	{
		Name: "a repeated confirm isn't extended", Rule: 3,
		Why:  "the holder counts from the second attempt, the server from the first",
		File: "internal/engine/expr.go",
		Edits: swap(`Value: d.extended("$$own", cond("$$waits", d.wait, d.held))`,
			`Value: cond("$$own."+fenceKey, "$$own."+expiresKey, d.extended("$$own", cond("$$waits", d.wait, d.held)))`),
		Tests: "^TestConfirmHeldAgainExtends$", Packages: inEngine,
	},
	{
		Name: "a confirm that still waits isn't extended", Rule: 0,
		Why:  "a waiter that asks in time loses its place",
		File: "internal/engine/expr.go",
		Edits: swap(`Value: d.extended("$$own", cond("$$waits", d.wait, d.held))`,
			`Value: cond("$$waits", "$$own."+expiresKey, d.extended("$$own", cond("$$waits", d.wait, d.held)))`),
		Tests: "^TestConfirmStillBlockedExtendsTheWait$", Packages: inEngine,
	},
	{
		Name: "a granted confirm keeps the short life of a waiter", Rule: 4,
		Why:  "the holder believes for a TTL, the server lets others in after a WaitTTL",
		File: "internal/engine/expr.go",
		Edits: swap(`Value: d.extended("$$own", cond("$$waits", d.wait, d.held))`,
			`Value: d.extended("$$own", cond("$$own."+fenceKey, d.held, d.wait))`),
		Tests: "^TestConfirmNoLongerBlocked$", Packages: inEngine,
	},
	{
		Name: "a cooperative relation is treated as assertive", Rule: 0,
		Why:  "who should be refused joins the queue and keeps others back",
		File: "internal/engine/expr.go",
		Edits: []Edit{
			{`append(d.blockedBy(relations.Cooperative), not(`, `append([]expr(nil), not(`},
			{`blocked := d.blockedBy(relations.Assertive)`, `blocked := append(d.blockedBy(relations.Assertive), d.blockedBy(relations.Cooperative)...)`},
		},
		Tests: "^TestAcquireRefused$", Packages: inEngine,
	},
	{
		Name: "an arrival allows one too many", Rule: 0,
		Why:  "three hold a semaphore of two",
		File: "internal/engine/expr.go",
		Edits: swap(`return nth("$$by."+tag, allow)`,
			`return nth("$$by."+tag, allow+1)`),
		Tests: "^TestAcquireAllows$", Packages: inEngine,
	},
	{
		Name: "a confirm allows one too many", Rule: 0,
		Why:  "three hold a semaphore of two",
		File: "internal/engine/expr.go",
		Edits: swap(`counts("$$e")), r.Allow))`,
			`counts("$$e")), r.Allow+1))`),
		Tests: "^TestConfirmAllows$", Packages: inEngine,
	},
	{
		Name: "a foreign lock field is overwritten", Rule: 0,
		Why:  "the user's data are destroyed",
		File: "internal/engine/expr.go",
		Edits: swap(`cond(wellFormed, then, d.lock)`,
			`cond(wellFormed, then, bson.D{})`),
		Tests: "^TestForeignFieldIsLeftUntouched$", Packages: inEngine,
	},
	{
		Name: "an owner's dollar sign is taken for a field", Rule: 0,
		Why:  "free text changes the command",
		File: "internal/engine/expr.go",
		Edits: swap(`bson.D{{Key: "$literal", Value: owner}}`,
			`owner`),
		Tests: "^TestOwnerIsFreeText$", Packages: inEngine,
	},
}

// commands are put together or read wrongly.
var commands = []Mutant{
	{
		Name: "the client's clock instead of the server's", Rule: 0,
		Why:  "clients whose clocks differ prune each other's live entries",
		File: "internal/engine/engine.go",
		Edits: swap(`	var now expr = "$$NOW"
	if cfg.Now != nil {
		now = nowPlaceholder
	}`,
			`	var now expr = nowPlaceholder
	if e.Now == nil {
		e.Now = func() time.Time { return e.Clocks().Wall }
	}`),
		Tests: "^TestServerKeepsTheEntryLonger$", Packages: []string{leasePkg, lockerPkg},
	},
	{
		Name: "a release removes all entries of its tag", Rule: 0,
		Why:  "a reader that leaves throws the others out",
		File: "internal/engine/engine.go",
		Edits: swap(`bson.D{{Key: "$pull", Value: bson.D{{Key: e.path(tag), Value: bson.D{{Key: idKey, Value: id}}}}}}`,
			`bson.D{{Key: "$set", Value: bson.D{{Key: e.path(tag), Value: bson.A{}}}}}`),
		Tests: "^TestReleaseLeavesTheRest$", Packages: inEngine,
	},
	{
		Name: "a release goes by the owner, not by the id", Rule: 0,
		Why:  "one program's leases of a document release each other",
		File: "internal/engine/engine.go",
		Edits: swap(`Value: bson.D{{Key: idKey, Value: id}}}}}}`,
			`Value: bson.D{{Key: ownerKey, Value: cfg.Owner}}}}}}`),
		Tests: "^TestReleaseLeavesTheRest$", Packages: inEngine,
	},
	{
		Name: "a release that finds another token is reported as released", Rule: 1,
		Why:  "a lost lease is told to have been held throughout",
		File: "internal/engine/engine.go",
		Edits: swap(`if e.ownEntry(raw, g).Fence != g.Fence {`,
			`if e.ownEntry(raw, g).ID != g.ID {`),
		Tests: "^TestRule01", Packages: inEngine,
	},
	{
		Name: "the server keeps no tolerance", Rule: 0,
		Why:  "a primary whose clock is ahead lets others in beside the holder",
		File: "internal/engine/engine.go",
		Edits: swap(`(cfg.Lease(tag) + cfg.Tolerance).Milliseconds()`,
			`cfg.Lease(tag).Milliseconds()`),
		Tests: "^TestAcquireFree$", Packages: inEngine,
	},
	{
		Name: "a command is content with one member's acknowledgement", Rule: 0,
		Why:  "an election rolls a granted lock back",
		File: "internal/engine/engine.go",
		Edits: swap(`writeconcern.Majority()`,
			`writeconcern.W1()`),
		Tests: "^TestMajority$", Packages: inEngine,
	},
	{
		Name: "the verdict is not a majority's", Rule: 18,
		Why:  "an election takes back what said that a write was not applied",
		File: "internal/engine/engine.go",
		Edits: swap(`readconcern.Majority()`,
			`readconcern.Local()`),
		Tests: "^TestMajority$", Packages: inEngine,
	},
	{
		Name: "the document is handed out with its lock", Rule: 0,
		Why:  "saving it back brings an old lock back",
		File: "internal/engine/outcome.go",
		Edits: swap(`if e.Key() != field {`,
			`if e.Key() != field+"s" {`),
		Tests: "^TestDecodeLeavesTheLockOut$", Packages: inEngine,
	},
	{
		Name: "the time to try again is that of the last holder", Rule: 0,
		Why:  "a waiter for a semaphore sleeps past the first free seat",
		File: "internal/engine/conflict.go",
		Edits: swap(`entries[len(entries)-1-allow].Expires`,
			`entries[len(entries)-1].Expires`),
		Tests: "^TestAcquireAllows$", Packages: inEngine,
	},
}

// writes are the guarded ones.
var writes = []Mutant{
	{
		Name: "guard without the id", Rule: 1,
		Why:  "after the document was made again a stranger's entry with the same token lets a late write pass",
		File: "internal/engine/guard.go",
		Edits: swap(`bson.D{{Key: idKey, Value: idValue(g.ID)}, {Key: fenceKey, Value: g.Fence}}`,
			`bson.D{{Key: fenceKey, Value: g.Fence}}`),
		Tests: "^TestRule01", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "guard without the token", Rule: 1,
		Why:  "a late duplicate of the acquire revives the id after another holder",
		File: "internal/engine/guard.go",
		Edits: swap(`bson.D{{Key: idKey, Value: idValue(g.ID)}, {Key: fenceKey, Value: g.Fence}}`,
			`bson.D{{Key: idKey, Value: idValue(g.ID)}}`),
		Tests: "^TestRule01", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "a write's number is not recorded", Rule: 14,
		Why:  "a repeat applies the update twice",
		File: "internal/engine/guard.go",
		Edits: swap(`Value: value(k)}}}})`,
			`Value: value(0 * k)}}}})`),
		Tests: "^TestWriteKeepsTheLock$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "a pipeline write's number is not recorded", Rule: 14,
		Why:  "a repeat applies the update twice",
		File: "internal/engine/guard.go",
		Edits: swap(`bson.D{{Key: writeKey, Value: k}})`,
			`bson.D{{Key: writeKey, Value: 0 * k}})`),
		Tests: "^TestWriteKeepsTheLock$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "a write's number is not checked", Rule: 14,
		Why:  "a repeat applies the update twice",
		File: "internal/engine/guard.go",
		Edits: swap(`{Key: "$gte", Value: k}`,
			`{Key: "$gte", Value: k + 1<<40}`),
		Tests: "^TestWriteOfUnknownOutcome$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "a write's number is checked for equality only", Rule: 14,
		Why:  "the first write's late duplicate is applied after the second",
		File: "internal/engine/guard.go",
		Edits: swap(`{Key: "$gte", Value: k}`,
			`{Key: "$eq", Value: k}`),
		Tests: "^TestRule14AWriteIsAppliedOnce$", Packages: []string{leasePkg, enginePkg},
	},
	{
		Name: "a write numbers all entries of its tag", Rule: 14,
		Why:  "another holder's write is taken for a repeat",
		File: "internal/engine/guard.go",
		Edits: swap(`bson.D{{Key: ownIdentifier + "." + idKey, Value: idValue(g.ID)}}`,
			`bson.D{{Key: ownIdentifier + "." + fenceKey, Value: bson.D{{Key: "$gt", Value: 0}}}}`),
		Tests: "^TestWriteKeepsTheLock$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "the caller's registry encodes the guard", Rule: 0,
		Why:  "an encoder of the caller's alters the library's filter",
		File: "internal/engine/guard.go",
		Edits: swap(`Value: value(bson.D{{Key: "$elemMatch", Value: entry}})`,
			`Value: bson.D{{Key: "$elemMatch", Value: entry}}`),
		Tests: "^TestRegistryCannotAlterTheLibrarysParts$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "the oldest id of done is taken for the newest", Rule: 18,
		Why:  "a write that was not applied is reported unknown as soon as another came",
		File: "internal/engine/guard.go",
		Edits: swap(`g.LastDone = img.Lock.Done[n-1]`,
			`g.LastDone = img.Lock.Done[0*n]`),
		Tests: "^TestRule18DoneAndItsNewest$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "the last write's id is not pushed to done", Rule: 18,
		Why:  "an applied write is reported lost",
		File: "internal/engine/guard.go",
		Edits: swap(`{Key: "$each", Value: args{idValue(g.ID)}}`,
			`{Key: "$each", Value: args{}}`),
		Tests: "^TestFinishReleases$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "done keeps one id only", Rule: 18,
		Why:  "absence from done is trusted, and an applied write reported lost",
		File: "internal/engine/guard.go",
		Edits: swap(`{Key: "$slice", Value: -DoneCap}`,
			`{Key: "$slice", Value: -1}`),
		Tests: "^TestFinishKeepsEightIDs$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "a last write leaves the entry", Rule: 0,
		Why:  "nobody is let in until it expires",
		File: "internal/engine/guard.go",
		Edits: swap(`{Key: "$pull", Value: bson.D{{Key: e.path(g.Tag), Value: value(bson.D{{Key: idKey, Value: idValue(g.ID)}})}}}`,
			`{Key: "$pull", Value: bson.D{{Key: e.path(g.Tag), Value: value(bson.D{{Key: idKey, Value: 0}})}}}`),
		Tests: "^TestFinishReleases$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "a positional path is let through", Rule: 0,
		Why:  "the server takes the position from the guard's array, and writes to another item",
		File: "internal/engine/update.go",
		Edits: swap(`slices.Contains(segments, "$")`,
			`slices.Contains(segments, "$$")`),
		Tests: "^TestInvalidUpdates$", Packages: inLease,
	},
	{
		Name: "absence from a full done is trusted", Rule: 18,
		Why:  "an applied write is reported not applied once eight others came after",
		File: "update.go",
		Edits: swap(`return len(img.Lock.Done) < engine.DoneCap`,
			`return true`),
		Tests: "^TestRule18AbsenceFromDone$", Packages: inLease,
	},
	{
		Name: "absence from an erased done is trusted", Rule: 18,
		Why:  "somebody erased the lock, and an applied write is reported not applied",
		File: "update.go",
		Edits: swap(`img == nil || img.Lock.Fence < g.Fence`,
			`img == nil`),
		Tests: "^TestRule18AbsenceFromDone$", Packages: inLease,
	},
	{
		Name: "the newest id at the grant is not looked for", Rule: 18,
		Why:  "an applied write is reported not applied once eight others came after",
		File: "update.go",
		Edits: swap(`return img.Lock.FinishedBy(g.LastDone)`,
			`return true`),
		Tests: "^TestRule18", Packages: inLease,
	},
	{
		Name: "belief ends at the last write's reply", Rule: 13,
		Why:  "released, the reply lost, still believed",
		File: "update.go",
		Edits: swap(`l.finish(ErrReleased) // before anything is sent`,
			`defer l.finish(ErrReleased)`),
		Tests: "^TestRule13BeliefEndsAtTheSend$", Packages: inLease,
	},
}

// failures are the driver's errors, taken for something else.
var failures = []Mutant{
	{
		Name: "a write-concern error is taken for a refusal", Rule: 0,
		Why:  "the write stands on the primary, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`	if withWriteConcernError(err) {
		return f`,
			`	if withWriteConcernError(err) {
		f.Certain = true
		return f`),
		Tests: "^(TestWriteConcernErrorIsUnknown|TestClassify)$", Packages: []string{enginePkg, leasePkg},
	},
	{
		Name: "a deadline inside the server is taken for a refusal", Rule: 0,
		Why:  "the command was executed, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`has(codesMaybeExecuted...) || `,
			``),
		Tests: "^TestClassify$", Packages: inEngine,
	},
	{
		Name: "a lost connection is taken for a refusal", Rule: 0,
		Why:  "the command was executed, and the caller is told that it failed",
		File: "internal/engine/failure.go",
		Edits: swap(`if has(0) || mongo.IsNetworkError(err) || mongo.IsTimeout(err) ||`,
			`if mongo.IsTimeout(err) ||`),
		Tests: "^TestClassify$", Packages: inEngine,
	},
	{
		Name: "a later attempt's refusal is believed of the earlier one", Rule: 0,
		Why:  "the first attempt was executed, and the caller is told that nothing was",
		File: "internal/attempt/settle.go",
		Edits: swap(`		if maybe != nil {
			unsure = maybe
		}`,
			`		unsure = maybe`),
		Tests: "^TestSettle", Packages: inAttempt,
	},
	{
		Name: "a command is cut off with its caller", Rule: 22,
		Why:  "an acquire executes after its clean-up, and nobody holds the entry",
		File: "internal/attempt/settle.go",
		Edits: swap(`context.WithTimeout(Detached(ctx), timeout)`,
			`context.WithTimeout(ctx, timeout)`),
		Tests: "^TestSettle", Packages: inAttempt,
	},
	{
		Name: "a detached command keeps the caller's session", Rule: 0,
		Why:  "two goroutines use one session",
		File: "internal/attempt/settle.go",
		Edits: swap(`return mongo.NewSessionContext(ctx, nil)`,
			`return ctx`),
		Tests: "^TestDetached", Packages: inAttempt,
	},
}

// leases believe too long, or say what isn't so.
var leases = []Mutant{
	{
		Name: "validity counts from the renewal's reply", Rule: 4,
		Why:  "a contender enters while the holder still believes",
		File: "lease.go",
		Edits: swap(`outcome, err = l.engine.Renew(ctx, l.grant)`,
			`outcome, err = l.engine.Renew(ctx, l.grant)
		sent = l.engine.Clocks()`),
		Tests: "^TestRule04AnchoredAtTheSend$", Packages: inLease,
	},
	{
		Name: "the holder believes for the tolerance too", Rule: 0,
		Why:  "the tolerance covers nothing: clocks that differ let others in beside the holder",
		File: "leases.go",
		Edits: swap(`ttl: ls.engine.Lease(g.Tag)}`,
			`ttl: ls.engine.Lease(g.Tag) + ls.engine.Tolerance}`),
		Tests: "^TestBeliefEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the wall clock is not looked at", Rule: 0,
		Why:  "a machine that was suspended believes in a lease of yesterday",
		File: "validity.go",
		Edits: swap(`max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
			`now.Mono - v.from.Mono`),
		Tests: "^TestBeliefEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the monotonic clock is not looked at", Rule: 0,
		Why:  "a wall clock that was set back makes a lease longer",
		File: "validity.go",
		Edits: swap(`max(now.Mono-v.from.Mono, now.Wall.Sub(v.from.Wall))`,
			`now.Wall.Sub(v.from.Wall)`),
		Tests: "^TestBeliefEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "the server's resolution is not taken off", Rule: 0,
		Why:  "the belief ends up to a millisecond after the entry",
		File: "validity.go",
		Edits: swap(`return v.ttl - resolution - passed`,
			`return v.ttl - passed`),
		Tests: "^TestBeliefEndsWithTheTTL$", Packages: inLease,
	},
	{
		Name: "a renewal is sent after the local end", Rule: 0,
		Why:  "a lease that was over is revived at the server",
		File: "lease.go",
		Edits: swap(`	if err := l.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, l.Remaining())
	defer cancel()
	var outcome engine.Outcome
	var sent engine.Reading
	_, err := attempt.Settle(ctx, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) (err error) {
		sent = l.engine.Clocks()
		ctx, cancel := context.WithTimeout(ctx, l.Remaining())`,
			`	ctx, cancel := context.WithTimeout(ctx, l.kept())
	defer cancel()
	var outcome engine.Outcome
	var sent engine.Reading
	_, err := attempt.Settle(ctx, l.engine.Attempt(l.grant.Tag), func(ctx context.Context) (err error) {
		sent = l.engine.Clocks()
		ctx, cancel := context.WithTimeout(ctx, l.kept())`),
		Tests: "^TestRenewNeverRevives$", Packages: inLease,
	},
	{
		Name: "a renewal that was answered after the end is reported as renewed", Rule: 4,
		Why:  "the caller goes on with a lease that is over",
		File: "lease.go",
		Edits: swap(`	l.mu.Unlock()
	return l.Err()`,
			`	l.mu.Unlock()
	return nil`),
		Tests: "^TestRenewAnsweredAfterTheEnd$", Packages: inLease,
	},
	{
		Name: "a loss that a renewal finds is not told", Rule: 0,
		Why:  "the holder works on until its time is up",
		File: "lease.go",
		Edits: swap(`	if outcome == engine.Lost {
		l.finish(ErrLost)
		return ErrLost`,
			`	if outcome == engine.Lost {
		return ErrLost`),
		Tests: "^TestRenewFindsTheLoss$", Packages: inLease,
	},
	{
		Name: "the end is told to nobody who doesn't ask", Rule: 0,
		Why:  "a kept context ends at the next renewal instead of with the lease",
		File: "lease.go",
		Edits: swap(`l.watch.Reset(l.nextLook())`,
			`_ = l.nextLook()`),
		Tests: "^TestDoneIsClosedAtTheEnd$", Packages: inLease,
	},
	{
		Name: "a kept context ends a TTL after the lease", Rule: 13,
		Why:  "the work goes on without the lock until the next look",
		File: "keepalive.go",
		Edits: []Edit{
			{"\t\"slices\"\n", "\t\"slices\"\n\t\"time\"\n"},
			{`kept.end(context.Cause(l.over))`, `time.AfterFunc(l.valid.ttl, func() { kept.end(context.Cause(l.over)) })`},
		},
		Tests: "^TestRule13BeliefEndsAtTheSend$", Packages: inLease,
	},
	{
		Name: "belief ends at the release's reply", Rule: 13,
		Why:  "released, the reply lost, still believed",
		File: "lease.go",
		Edits: swap(`l.finish(ErrReleased) // before anything is sent`,
			`defer l.finish(ErrReleased)`),
		Tests: "^TestRule13BeliefEndsAtTheSend$", Packages: inLease,
	},
	{
		Name: "a repeated release is reported lost", Rule: 0,
		Why:  "the reply was lost, and the caller compensates for a loss that wasn't",
		File: "lease.go",
		Edits: swap(`	case l.left() > 0: // nobody but an earlier attempt can have removed it
		return nil`,
			`	case l.left() > 0: // nobody but an earlier attempt can have removed it
		return ErrLost`),
		Tests: "^TestReleaseWhoseReplyIsLost$", Packages: inLease,
	},
	{
		Name: "a release repeated after the end is reported as released", Rule: 0,
		Why:  "others may have been let in, and the caller isn't told",
		File: "lease.go",
		Edits: swap(`case l.left() > 0: // nobody`,
			`case l.left() > -time.Hour: // nobody`),
		Tests: "^TestReleaseWhoseReplyIsLostUntilTheEnd$", Packages: inLease,
	},
	{
		Name: "renewals end at the first error", Rule: 0,
		Why:  "a network that failed for a moment costs the lock",
		File: "renewals.go",
		Edits: swap(`k.alone, k.after = k.alone || alone, now.Mono+l.pause()`,
			`k.alone, k.after = k.alone || alone, now.Mono+time.Hour`),
		Tests: "^TestKeepAliveSurvivesWhatPasses$", Packages: inLease,
	},
	{
		Name: "a second keeper renews beside the first", Rule: 0,
		Why:  "commands are sent twice",
		File: "renewals.go",
		Edits: swap(`		r.running = true
`, ``),
		Tests: "^TestOneLoopForAllThatAreKept$", Packages: inLease,
	},
	{
		Name: "the first keeper's end ends the renewals", Rule: 0,
		Why:  "the lease ends under the second keeper",
		File: "renewals.go",
		Edits: swap(`	if k.keepers > 0 {
`, `	if k.keepers > 1 {
`),
		Tests: "^TestKeepAlivesShareOneLoop$", Packages: inLease,
	},
}

// renewals of many leases by one command.
var renewals = []Mutant{
	{
		Name: "a batch that matched some is believed for all", Rule: 20,
		Why:  "the holder of a skipped document believes beside the next one",
		File: "internal/engine/batch.go",
		Edits: swap(`return result.MatchedCount == int64(len(grants)), nil`,
			`return result.MatchedCount > 0, nil`),
		Tests: "^TestRenewAllButOne$", Packages: inEngine,
	},
	{
		Name: "a batch is valid from its answer on", Rule: 20,
		Why:  "a contender enters while the holders still believe",
		File: "batch.go",
		Edits: swap(`all, failed := e.RenewAll(ctx, grants)`,
			`all, failed := e.RenewAll(ctx, grants)
	sent = e.Clocks()`),
		Tests: "^TestRule20AnchoredAtTheSend$", Packages: inLease,
	},
	{
		Name: "a read is valid from its answer on", Rule: 20,
		Why:  "a contender enters while the holders still believe",
		File: "batch.go",
		Edits: swap(`standing, err := e.Standing(ctx, grants)`,
			`standing, err := e.Standing(ctx, grants)
	sent = e.Clocks()`),
		Tests: "^TestRule20AnchoredAtTheSend$", Packages: inLease,
	},
	{
		Name: "an entry that stands is believed for a TTL", Rule: 20,
		Why:  "it was not extended, and ends under its holder",
		File: "batch.go",
		Edits: swap(`lasting(span, sent, e.Lease(l.grant.Tag))`,
			`lasting(max(span, e.Lease(l.grant.Tag)), sent, e.Lease(l.grant.Tag))`),
		Tests: "^TestRule20UnknownOutcomes$", Packages: inLease,
	},
	{
		Name: "an entry that stands is known by its id alone", Rule: 20,
		Why:  "a late duplicate of the acquire is taken for the lease that was lost",
		File: "internal/engine/batch.go",
		Edits: swap(`entry.Tag == g.Tag && entry.Fence == g.Fence`,
			`entry.Tag == g.Tag && g.Fence != 0`),
		Tests: "^TestRenewAllButOne$", Packages: inEngine,
	},
	{
		Name: "a read's tolerance is the holder's", Rule: 20,
		Why:  "the tolerance covers nothing after a read",
		File: "internal/engine/batch.go",
		Edits: swap(`entry.Expires.Sub(now)-e.Tolerance`,
			`entry.Expires.Sub(now)`),
		Tests: "^TestRenewAll$", Packages: inEngine,
	},
	{
		Name: "a read is believed for longer than the TTL", Rule: 20,
		Why:  "an expiry that somebody moved keeps a holder believing for an hour, whatever comes",
		File: "internal/engine/batch.go",
		Edits: swap(`min(entry.Expires.Sub(now)-e.Tolerance, e.Lease(g.Tag))`,
			`entry.Expires.Sub(now) - e.Tolerance`),
		Tests: "^TestRenewAll$", Packages: inEngine,
	},
	{
		Name: "a loss in a batch is not told", Rule: 0,
		Why:  "the holder works on until its time is up",
		File: "batch.go",
		Edits: swap(`case failed == nil:`,
			`case failed != nil && all:`),
		Tests: "^TestRule20ALossInABatch$", Packages: inLease,
	},
	{
		Name: "absence after a failed batch is a loss", Rule: 0,
		Why:  "a read of a primary that was just elected ends a lease that stands",
		File: "batch.go",
		Edits: swap(`case failed == nil:`,
			`case !all:`),
		Tests: "^TestRule20ALossInABatchOfUnknownOutcome$", Packages: inLease,
	},
	{
		Name: "a batch that was refused is sent again as it was", Rule: 0,
		Why:  "one document that can't be written ends a hundred leases",
		File: "batch.go",
		Edits: swap(`return failed != nil`,
			`return false`),
		Tests: "^TestRule20UnknownOutcomes$", Packages: inLease,
	},
	{
		Name: "every lease is renewed alone", Rule: 0,
		Why:  "ten thousand leases cost ten thousand commands",
		File: "batch.go",
		Edits: swap(`batchSize = 100`,
			`batchSize = 1`),
		Tests: "^TestManyLeasesAreRenewedByFewCommands$", Packages: inLease,
	},
	{
		Name: "nothing is taken along", Rule: 0,
		Why:  "leases that were taken one after the other are renewed one after the other for ever",
		File: "renewals.go",
		Edits: swap(`pause <= 0 && rest <= l.soon()`,
			`pause <= 0 && rest <= 0`),
		Tests: "^TestManyLeasesAreRenewedByFewCommands$", Packages: inLease,
	},
	{
		Name: "one command at a time", Rule: 0,
		Why:  "a document that is kept back from all writes ends the leases of others",
		File: "renewals.go",
		Edits: swap(`mostCommands = 4`,
			`mostCommands = 1`),
		Tests: "^TestASlowBatchHoldsUpNoOther$", Packages: inLease,
	},
	{
		Name: "a batch is in no order", Rule: 0,
		Why:  "the batches of two processes lock the documents in different orders, and wait for each other",
		File: "batch.go",
		Edits: swap(`return cmp.Or(cmp.Compare(x.Type, y.Type), bytes.Compare(x.Value, y.Value))`,
			`return cmp.Compare(len(x.Value), len(y.Value)) * bytes.Compare(x.Value, y.Value)`),
		Tests: "^TestABatchIsInOrder$", Packages: inLease,
	},
	{
		Name: "the loop goes on without leases", Rule: 0,
		Why:  "a goroutine outlives its owner",
		File: "renewals.go",
		Edits: swap(`	if len(r.kept) == 0 {
		r.running = false`,
			`	if r.kept == nil && !r.running {
		r.running = false`),
		Tests: "^TestOneLoopForAllThatAreKept$", Packages: inLease,
	},
}

// acquires leave entries behind, or believe in the wrong one.
var acquires = []Mutant{
	{
		Name: "validity counts from the acquire's reply", Rule: 4,
		Why:  "a contender enters while the holder still believes",
		File: "multilock/acquisition.go",
		Edits: swap(`got.outcome, got.image, err = e.Acquire(ctx, a.filter, a.request)`,
			`got.outcome, got.image, err = e.Acquire(ctx, a.filter, a.request)
		got.sent = e.Clocks()`),
		Tests: "^TestRule04AnchoredAtTheSend$", Packages: []string{leasePkg, lockerPkg},
	},
	{
		Name: "validity counts from the confirm's reply", Rule: 4,
		Why:  "a contender enters while the holder still believes",
		File: "multilock/ticket.go",
		Edits: swap(`got.outcome, got.image, err = e.Confirm(ctx, t.grant.Pin, t.a.request)`,
			`got.outcome, got.image, err = e.Confirm(ctx, t.grant.Pin, t.a.request)
		got.sent = e.Clocks()`),
		Tests: "^TestRule04", Packages: inLocker,
	},
	{
		Name: "a retried acquire takes a new id", Rule: 0,
		Why:  "the first attempt's entry excludes its own caller",
		File: "multilock/acquisition.go",
		Edits: swap(`		got.sent = e.Clocks()`,
			`		a.renamed()
		got.sent = e.Clocks()`),
		Tests: "^TestUnknownOutcomeOfPinnedAcquireIsRepeated$", Packages: inLocker,
	},
	{
		Name: "an id is used again", Rule: 19,
		Why:  "a late command for the old entry meets the new one",
		File: "multilock/acquisition.go",
		Edits: swap(`func (a *acquisition) renamed() { a.request.ID = uuid.New() }`,
			`func (a *acquisition) renamed() {}`),
		Tests: "^TestAcquireWhoseEntryWasPrunedStartsAgainUnderANewID$", Packages: inLocker,
	},
	{
		Name: "an acquire by any filter is repeated", Rule: 0,
		Why:  "the repeat locks a second document",
		File: "multilock/acquisition.go",
		Edits: swap(`if a.filter.Pin == nil {`,
			`if a.filter.Pin == nil && ctx == nil {`),
		Tests: "^TestUnknownOutcomeOfUnpinnedAcquireIsReported$", Packages: inLocker,
	},
	{
		Name: "what was granted to a caller who had gone is kept", Rule: 22,
		Why:  "nobody holds the lock until it expires",
		File: "multilock/acquisition.go",
		Edits: swap(`if got.err == nil && (got.outcome`,
			`if got.err != nil && (got.outcome`),
		Tests: "^TestCancelledDuringTheCommandLeavesNoEntry$", Packages: inLocker,
	},
	{
		Name: "an acquire of unknown outcome isn't cleaned up", Rule: 22,
		Why:  "nobody holds the lock until it expires",
		File: "multilock/acquisition.go",
		Edits: swap(`		a.release(a.filter.Pin, a.request.ID)
`,
			``),
		Tests: "^TestUnknownOutcomeOfUnpinnedAcquireIsReported$", Packages: inLocker,
	},
	{
		Name: "a waiter that gives up leaves its entry", Rule: 0,
		Why:  "an entry that nobody waits with keeps others back",
		File: "multilock/wait.go",
		Edits: swap(`t.abandon()`,
			`_ = t`),
		Tests: "^TestCancelledWhileItsEntryWaitsLeavesNoEntry$", Packages: inLocker,
	},
	{
		Name: "a ticket believes in an entry with another seq", Rule: 7,
		Why:  "pruned and entered anew by a late duplicate, it goes before those who came before it",
		File: "multilock/ticket.go",
		Edits: swap(`if own.Seq != t.grant.Seq {`,
			`if own.Seq < t.grant.Seq {`),
		Tests: "^TestTicketLostWhenALateDuplicate", Packages: inLocker,
	},
	{
		Name: "a document that can't be decoded stays locked", Rule: 0,
		Why:  "the caller has an error and no lease, and nobody is let in",
		File: "multilock/ticket.go",
		Edits: swap(`t.a.locker.ops.Go(func() { _ = lease.Release(context.Background()) })`,
			`_ = lease`),
		Tests: "^TestIntoThatFailsReleasesTheLock$", Packages: inLocker,
	},
	{
		Name: "a waiter asks too late to keep its place", Rule: 0,
		Why:  "it is pruned, and begins again at the end",
		File: "multilock/ticket.go",
		Edits: swap(`e.Wait(t.grant.Tag)/3`,
			`e.Wait(t.grant.Tag)*30`),
		Tests: "^TestTicketThatWaitedLongKeepsItsPlace$", Packages: inLocker,
	},
}

// tables are analysed, checked or preset wrongly.
var tables = []Mutant{
	{
		Name: "starvation: an overtaker may ignore itself", Rule: 0,
		Why:  "who is said to starve doesn't",
		File: "relations/analysis.go",
		Edits: swap(`return r.ignores(z, z, rel.Allow)`,
			`return r.ignores(z, z, 0)`),
		Tests: "^TestStarvationsAreThoseOfTheSearch_AllTwoTagTables$", Packages: inRelations,
	},
	{
		Name: "starvation: a crowd may be too large for its tag", Rule: 0,
		Why:  "who is said to starve doesn't",
		File: "relations/analysis.go",
		Edits: swap(`self.Kind == Cooperative && self.Allow+1 < next.n`,
			`self.Kind == Cooperative && self.Allow+2 < next.n`),
		Tests: "^(TestCrowdThatIsTooLargeForItsTagStopsNobody|TestStarvationsAreThoseOfTheSearch_AllTwoTagTables)$", Packages: inRelations,
	},
	{
		Name: "starvation: those in the queue may refuse each other", Rule: 0,
		Why:  "who is said to starve doesn't",
		File: "relations/analysis.go",
		Edits: swap(`rel.Kind == Cooperative && rel.Allow < next.n`,
			`rel.Kind == None && rel.Allow < 0`),
		Tests: "^TestStarvationsAreThoseOfTheSearch_SomeFourTagTables$", Packages: inRelations,
	},
	{
		Name: "starvation: nobody is refused for ever", Rule: 0,
		Why:  "who starves isn't warned",
		File: "relations/analysis.go",
		Edits: swap(`if r[x][z].Kind == Cooperative && r.canStandInTheWay(x, z) {`,
			`if r[x][z].Kind == Cooperative && r.canStandInTheWay(x, z) && x != z {`),
		Tests: "^TestPresetsStarveWhomTheirCommentsSay$", Packages: inRelations,
	},
	{
		Name: "a semaphore of n lets n+1 in", Rule: 0,
		Why:  "one too many work at once",
		File: "relations/presets.go",
		Edits: swap(`Allow: max(n, 0) - 1}`,
			`Allow: max(n, 0)}`),
		Tests: "^TestPresetsBehaveAsTheirCommentsSay$", Packages: inRelations,
	},
	{
		Name: "two tags of a preset ignore each other", Rule: 0,
		Why:  "an intention to write and a shared lock are both let in",
		File: "relations/presets.go",
		Edits: swap(`"IX":  {"S": incompatible, "SIX": incompatible, "X": incompatible},`,
			`"IX":  {"SIX": incompatible, "X": incompatible},`),
		Tests: "^TestMultiGranularityIsGraysMatrix$", Packages: inRelations,
	},
	{
		Name: "a relation to a tag that isn't there is let through", Rule: 0,
		Why:  "a misspelt tag is respected by nobody",
		File: "relations/validate.go",
		Edits: swap(`if _, known := r[y]; !known {`,
			`if _, known := r[y]; !known && rel.Kind == None {`),
		Tests: "^TestValidateNamesEveryFault$", Packages: inRelations,
	},
}
