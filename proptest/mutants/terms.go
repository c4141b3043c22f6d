package mutants

// terms mix the TTL and the owner of one acquire with its Locker's, or break
// rule 25: HoldAtLeast.
var terms = []Mutant{{
	Name: "hold at most: a renewal is by a TTL",
	Why:  "the lease of a stuck holder has ended, and others are kept out for a TTL more",
	File: "internal/lease/limit.go", Tests: "^TestALeaseEndsWithItsLimit$", Packages: inHold,
	Old: `min(g.TTL, s.most())`,
	New: `max(g.TTL, s.most()/1e9)`,
}, {
	Name: "hold at least: a release leaves nothing", Rule: 25,
	File: "internal/engine/leave.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `cond(ours, call("$gt", "$$e."+untilKey, e.serverTime()), "$$e."+tokenKey)`,
	New: `cond(ours, call("$lt", e.serverTime(), 0), "$$e."+tokenKey)`,
}, {
	Name: "hold at least: a remainder keeps its id", Rule: 25,
	File: "internal/engine/leave.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `remainder.id, remainder.expires, remainder.until = idValue(uuid.New()),`,
	New: `remainder.id, remainder.expires, remainder.until = idValue(g.ID),`,
}, {
	Name: "hold at least: the entry lives for its TTL only", Rule: 25,
	File: "internal/engine/terms.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `return max(d.held, d.until)`,
	New: `return d.held`,
}, {
	Name: "hold at least: a waiting entry has the time from its arrival", Rule: 25,
	Why:  "the time is over before the lock is granted",
	File: "internal/engine/expr.go", Tests: "^TestEngine$", Packages: inMachine,
	Old: `cond("$$waits", "$$REMOVE", d.keptOut())`,
	New: `d.keptOut()`,
}, {
	Name: "hold at least: what no caller got leaves a remainder", Rule: 25,
	File: "multilock/leftover.go", Tests: "^TestRule25WhatNobodyHeldLeavesNothing$", Packages: inLocker,
	Old: `held.Unused()`,
}, {
	Name: "hold at least: a shared tag takes it", Rule: 25,
	Why:  "the last holder to leave leaves the time of the first",
	File: "multilock/asked.go", Tests: "^TestAcquireRefusesBadInput$", Packages: inLocker,
	Old: `case shared && t.Least > 0:`,
	New: `case shared && t.Least < 0:`,
}}
