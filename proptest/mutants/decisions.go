package mutants

// decisions are wrong in the expressions of acquire and confirm.
var decisions = []Mutant{{
	Name: "nothing ever expires",
	Why:  "a crashed holder keeps the lock for ever",
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `tests := []expr{call("$gt", "$$e."+expiresKey, d.now)}`,
	New: `tests := []expr{true}`,
}, {
	Name: "expired entries of the own tag are kept", Rule: 5,
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `orElse(entries, args{})`,
	New: `filter(orElse(d.own, args{}), "kept", call("$ne", "$$kept."+idKey, idValue(idPlaceholder)))`,
}, {
	Name: "an arrival ignores waiting entries",
	Why:  "readers overtake a waiting writer for ever",
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `nth(d.survivorsOf(tag), r.Allow)`,
	New: `nth(filter(d.survivorsOf(tag), "e", "$$e."+fenceKey), r.Allow)`,
}, {
	Name: "a confirm ignores later held entries", Rule: 10,
	Why:  "a waiter is granted beside a holder that was allowed to overtake it",
	File: "internal/engine/confirmation.go", Tests: "^TestRule06", Packages: inEngine,
	Old: `return call("$or", e+"."+fenceKey, call("$lt", e+"."+seqKey, "$$own."+seqKey))`,
	New: `return call("$lt", e+"."+seqKey, "$$own."+seqKey)`,
}, {
	Name: "a confirm waits for later entries", Rule: 10,
	File: "internal/engine/confirmation.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `return call("$or", e+"."+fenceKey, call("$lt", e+"."+seqKey, "$$own."+seqKey))`,
	New: `return true`,
}, {
	Name: "a confirm ignores cooperative relations", Rule: 6,
	File: "relations/rules.go", Tests: "^TestRule06", Packages: inEngine,
	Old: `k == None {`,
	New: `k != Assertive {`,
}, {
	Name: "a confirm makes a missing entry", Rule: 7,
	File: "internal/engine/confirmation.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `own := nth(filter(d.own, "e", call("$eq", "$$e."+idKey, id)), 0)`,
	New: `own := orElse(nth(filter(d.own, "e", call("$eq", "$$e."+idKey, id)), 0), bson.D{{Key: idKey, Value: id}, {Key: seqKey, Value: d.next()}, {Key: sinceKey, Value: d.now}})`,
}, {
	Name: "a TryAcquire waits",
	Why:  "a TryAcquire that failed leaves an entry that blocks others",
	File: "internal/engine/terms.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `d.arrival(e.field, c == acquiring, id,`,
	New: `d.arrival(e.field, true, id,`,
}, {
	Name: "an arrival ignores unknown tags", Rule: 8,
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `if known := d.known(exclusive...); len(known) > 0 {
		free = append(free, isOneOf("$$t.k", known))
	}`,
	New: `free = append(free, not(call("$in", "$$t.k", append([]string{}, exclusive...))))`,
}, {
	Name: "a confirm ignores unknown tags", Rule: 9,
	File: "internal/engine/confirmation.go", Tests: "^TestRule09", Packages: inEngine,
	Old: `nth(filter("$$strange", "t", nth(`,
	New: `nth(filter(args{}, "t", nth(`,
}, {
	Name: "a confirm waits for later unknown tags", Rule: 9,
	Why:  "two programs with different rules wait for each other for ever",
	File: "internal/engine/confirmation.go", Tests: "^TestRule09", Packages: inEngine,
	Old: `nth(filter("$$t.v", "e", counts("$$e")), 0))`,
	New: `nth("$$t.v", 0))`,
}, {
	Name: "the fence doesn't increase within a millisecond", Rule: 11,
	Why:  "two holders have one fencing token, and a late holder's write is accepted",
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `call("$add", d.lock+"."+fenceKey, 1)`,
	New: `call("$add", d.lock+"."+fenceKey, 0)`,
}, {
	Name: "a join takes no fence", Rule: 11,
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `var entered expr = d.put("$$next", d.with(entry.document(), exclusive...))`,
	New: `var number expr = "$$next"
	if joins {
		number = cond("$$waits", d.lock+"."+fenceKey, "$$next")
	}
	var entered expr = d.put(number, d.with(entry.document(), exclusive...))`,
}, {
	Name: "fences begin again in a new document",
	Why:  "a document that was deleted and made again gives out old fencing tokens",
	File: "internal/engine/expr.go", Tests: "^TestAcquireFree$", Packages: inEngine,
	Old: `call("$toLong", d.now)})`,
	New: `1})`,
}, {
	Name: "an expiry may move backwards", Rule: 2,
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `return call("$max", args{entry + "." + expiresKey, call("$add", d.now, ms)})`,
	New: `return call("$max", args{call("$add", d.now, ms)})`,
}, {
	Name: "a repeated acquire isn't extended", Rule: 3,
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `d.extended("$$e", ownLease)`,
	New: `cond(true, "$$e."+expiresKey, ownLease)`,
}, {
	Name: "a cooperative relation is treated as assertive",
	Why:  "an arrival that should be refused joins the queue and blocks others",
	File: "internal/engine/expr.go", Tests: "^TestAcquireRefused$", Packages: inEngine,
	Old: `case effect == relations.Blocked && joins:`,
	New: `case joins:`,
}, {
	Name: "an arrival allows one too many",
	Why:  "three hold a semaphore of two",
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `nth(d.survivorsOf(tag), r.Allow)`,
	New: `nth(d.survivorsOf(tag), r.Allow+1)`,
}, {
	Name: "a foreign lock field is overwritten",
	Why:  "the user's data are destroyed",
	File: "internal/engine/expr.go", Tests: "^TestForeignFieldIsLeftUntouched$", Packages: inEngine,
	Old: `cond(wellFormed, then, d.lock)`,
	New: `cond(wellFormed, then, bson.D{})`,
}}
