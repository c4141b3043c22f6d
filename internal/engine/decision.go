package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The decision is built from aggregation expressions. Their variables are:
//
//	$$live0…   the live entries of others, an array for each tag of the rules, in their order, or null
//	$$strange  the live entries under unknown tags, as [{k: tag, v: [entry, …]}, …]: where entries pass others
//	$$next     the next value of lock.fence
//	$$again    the arriving entry is in the document already
//	$$own      the entry that the command confirms
//	$$named    the ids and fencing tokens that a take-over names
//	$$ended    the greatest fencing token of the live entries that a take-over ends, or null
//	$$t, $$e   a tag, an entry inside $filter and $map
//
// No expression raises an error, whatever the field holds, and in whatever
// order a server evaluates operands. The manual lets a server evaluate an
// operand of $and or $or that isn't needed, and MongoDB evaluates all variables
// of a $let. So none of these operators protects another one. $cond does: the
// server evaluates its test first, and does not evaluate the other branch.
//
// Where several forms mean the same, the cheapest one is used. To test the
// element at index n is cheaper than to count an array. `$in` over ids is
// cheaper than a `$filter`. An array at a known path is much cheaper than one
// made by $objectToArray (beside 1,000 entries that is half of the whole
// command). DocumentDB evaluates a variable of a $let anew for each use, so
// $$again must not stand inside a $filter.
//
// The server compares strings by the collection's collation, which may ignore
// case. So tags are compared by their paths and by $regexMatch, which uses no
// collation.

// decision builds the expressions for one set of rules, one tag and one field.
type decision struct {
	lock  string // "$lock"
	own   string // "$lock.tags.read"
	tag   string
	rules relations.Rules
	order []string // the known tags, sorted
	now   expr
	held  int64 // milliseconds that a held entry is kept: TTL + tolerance
	wait  int64 // the same for a waiting one
	until int64 // milliseconds after the grant that others are kept out; 0 is none

	settled []uuid.UUID // marks: an expired entry that has one of them is dropped
}

// arrival is the pipeline of acquire. All live entries count, held or waiting.
// With joins, an entry that only assertive relations block is written as a
// waiting entry; without, nothing is written.
func (d decision) arrival(joins bool, id expr, owner string) bson.A {
	exclusive, refused, blocked := d.arrivalRules(joins)
	joins = len(blocked) > 0

	var ownLease expr = d.held
	if d.waits() {
		ownLease = cond("$$e."+fenceKey, d.held, d.wait)
	}
	entry := d.newGrant(id, call("$literal", owner))
	if joins {
		entry.fence = cond("$$waits", "$$REMOVE", entry.fence)
		entry.expires = call("$add", d.now, cond("$$waits", d.wait, d.granting()))
		if d.until > 0 {
			entry.until = cond("$$waits", "$$REMOVE", entry.until)
		}
	}
	var entered expr = d.put("$$next", d.with(entry.document(), exclusive...))
	if joins {
		entered = let(bson.D{{Key: "waits", Value: anyOf(blocked...)}}, entered)
	}
	if len(refused) > 0 {
		entered = cond(anyOf(refused...), d.lock, entered)
	}
	entered = cond(anyOf(d.exhausted()...), d.lock, entered)
	arrive := let(append(d.survivors(exclusive), bson.E{Key: "next", Value: d.next()}), entered)

	repeat := call("$mergeObjects", d.lock, bson.D{{Key: tagsKey, Value: call("$mergeObjects", d.lock+"."+tagsKey,
		bson.D{{Key: d.tag, Value: inPlace(d.own, id, bson.D{{Key: expiresKey, Value: d.extended("$$e", ownLease)}})}})}})

	// A repeat ignores the entries of others: its own is in the document already.
	return d.stage(let(bson.D{{Key: "again", Value: d.hasEntry(id)}}, d.keepForeign(cond("$$again", repeat, arrive), d.empty(exclusive, "$$again"))))
}

// confirmation is the pipeline of confirm. Live entries count if they are held
// or came earlier. Cooperative relations count too, because an entry that
// ignores the waiting one may have come in the meantime. Without an own entry
// the pipeline changes nothing: a pruned waiter must not rejoin silently as the
// last one.
func (d decision) confirmation(id expr) bson.A {
	blocked := d.blockedBy(call("$or", "$$e."+fenceKey, call("$lt", "$$e."+seqKey, "$$own."+seqKey)))

	asBefore := call("$or", "$$waits", "$$own."+fenceKey) // it waits on, or is a repeat
	granted := cond(asBefore, d.lock+"."+fenceKey, "$$next")
	var lease expr = d.held
	if d.granting() != d.held {
		lease = cond("$$own."+fenceKey, d.held, d.granting())
	}
	changed := bson.D{
		{Key: fenceKey, Value: cond("$$waits", "$$REMOVE", orElse("$$own."+fenceKey, "$$next"))},
		{Key: expiresKey, Value: d.extended("$$own", cond("$$waits", d.wait, lease))},
	}
	if d.until > 0 {
		changed = append(changed, bson.E{Key: untilKey, Value: cond(asBefore, "$$REMOVE", d.keptOut())})
	}
	entry := call("$mergeObjects", "$$own", changed)
	confirmed := d.put(granted, d.withAll(entry))
	judged := let(bson.D{{Key: "waits", Value: all(not("$$own."+fenceKey), anyOf(blocked...))}},
		cond(all(not(asBefore), anyOf(d.exhausted()...)), d.lock, confirmed))

	own := nth(filter(d.own, "e", call("$eq", "$$e."+idKey, id)), 0)
	return d.stage(d.keepForeign(
		let(append(d.survivors(nil, call("$ne", "$$e."+idKey, id)), d.unknown(), bson.E{Key: "next", Value: d.next()}, bson.E{Key: "own", Value: own}),
			cond(not("$$own"), d.lock, judged))))
}

// blockedBy are the tests that keep an entry back: more entries that count than its tag
// allows.
func (d decision) blockedBy(counts expr) (tests []expr) {
	for _, tag := range d.order {
		if r := d.rules[d.tag][tag]; r.Kind.Waiting() != relations.Ignored {
			tests = append(tests, nth(filter(d.survivorsOf(tag), "e", counts), r.Allow))
		}
	}
	return append(tests, nth(filter("$$strange", "t", nth(filter("$$t.v", "e", counts), 0)), 0))
}

// resumption is the pipeline of resume. The filter has checked that an entry
// has the key.
func (d decision) resumption(key, id expr, owner string) bson.A {
	resumed := inherited()
	resumed.id, resumed.fence = id, "$$next"
	if owner != "" {
		resumed.owner = call("$literal", owner)
	}
	resumed.expires, resumed.key = d.extended("$$e", d.held), key
	resumed.until = cond("$$e."+detachedKey,
		orElse("$$e."+untilKey, "$$REMOVE"),
		call("$max", args{"$$e." + untilKey, "$$e." + expiresKey}))
	changed := d.change("$$next", mapped(d.own, "e", cond(call("$eq", "$$e."+tokenKey, key), resumed.document(), "$$e")))
	takeover := let(bson.D{{Key: "next", Value: d.next()}}, cond(anyOf(d.exhausted()...), d.lock, changed))
	return d.stage(d.keepForeign(cond(d.hasEntry(id), d.repeat(id), takeover)))
}

// repeat extends the entry that an earlier attempt has made.
func (d decision) repeat(id expr) bson.D {
	return d.change(d.lock+"."+fenceKey, inPlace(d.own, id, bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}}))
}

// conversion is the pipeline of Convert, judged beside held entries only. from is the
// path of the entries of the grant's tag, and id is the new entry's.
func (d decision) conversion(from string, g Grant, k int64, id expr) bson.A {
	own := idValue(g.ID)
	refused := append([]expr{call("$gt", "$$own."+untilKey, d.now)}, append(d.blockedBy("$$e."+fenceKey), d.exhausted()...)...)

	entry := d.newGrant(id, "$$own."+ownerKey)
	numbered := call("$mergeObjects", d.lock+"."+tagsKey, bson.D{{Key: g.Tag, Value: inPlace(from, own, bson.D{{Key: writeKey, Value: k}})}})
	judged := let(append(d.survivors(nil, call("$ne", "$$e."+idKey, own)), d.unknown(), bson.E{Key: "next", Value: d.next()}),
		cond(anyOf(refused...), d.put(d.lock+"."+fenceKey, numbered), d.put("$$next", d.withAll(entry.document()))))
	decided := let(bson.D{{Key: "own", Value: nth(filter(from, "e", all(call("$eq", "$$e."+idKey, own), call("$eq", "$$e."+fenceKey, g.Fence))), 0)}},
		cond(not("$$own"), d.lock, cond(call("$gte", "$$own."+writeKey, k), d.lock, judged)))
	return d.stage(d.keepForeign(cond(d.hasEntry(id), d.repeat(id), decided)))
}

// takeOver is the pipeline of an acquire that ends the named entries, each with the fencing
// token that it was seen with, and is granted, or writes nothing. If one of them is live and
// held, the new entry takes its place: it is judged beside held entries only.
func (d decision) takeOver(named []Entry, id expr, owner string) bson.A {
	names := args{}
	for _, e := range named {
		names = append(names, bson.D{{Key: idKey, Value: idValue(e.ID)}, {Key: fenceKey, Value: long(e.Fence)}})
	}
	isNamed := call("$in", bson.D{{Key: idKey, Value: "$$e." + idKey}, {Key: fenceKey, Value: orElse("$$e."+fenceKey, 0)}}, "$$named")
	taken := all(isNamed, not(d.marked()))
	ended := call("$max", mapped(d.byTag(), "t", call("$max", mapped(filter("$$t.v", "e", d.live(taken)), "e", "$$e."+fenceKey))))

	entry := d.newGrant(id, call("$literal", owner))
	broken := cond("$$ended", bson.D{{Key: brokenKey, Value: call("$max", d.lock+"."+brokenKey, "$$ended")}}, bson.D{})
	kept := append(d.blockedBy(call("$or", "$$e."+fenceKey, not("$$ended"))), d.exhausted()...)
	vars := append(d.survivors(nil, not(taken)), d.unknown(not(taken)), bson.E{Key: "next", Value: d.next()}, bson.E{Key: "ended", Value: ended})
	judged := let(vars, cond(anyOf(kept...), d.lock, call("$mergeObjects", d.put("$$next", d.withAll(entry.document())), broken)))
	return d.stage(d.keepForeign(cond(d.hasEntry(id), d.repeat(id), let(bson.D{{Key: "named", Value: names}}, judged))))
}

// free is the filter that finds what an arrival that doesn't wait, with a new id, is granted.
// A document that was never locked is found without the expression: DocumentDB evaluates
// it for all documents that match, and sorts them then.
func (d decision) free() bson.D {
	exclusive, refused, _ := d.arrivalRules(false)
	var test expr = true
	if len(refused) > 0 {
		test = let(d.survivors(exclusive), cond(anyOf(refused...), false, true))
	}
	return bson.D{{Key: "$or", Value: bson.A{
		bson.D{{Key: d.lock[1:], Value: bson.D{{Key: "$exists", Value: false}}}},
		bson.D{{Key: "$expr", Value: cond(d.wellFormed(d.empty(exclusive)), cond(call("$lt", d.lock+"."+fenceKey, long(fenceLimit-1)), test, false), false)}},
	}}}
}

// empty tests that $$t has no live entry, if it is an unknown tag or an exclusive one,
// and the test that it gets fails.
func (d decision) empty(exclusive []string, or ...expr) expr {
	tests := append(or, none("$$t.v", d.live()))
	if known := d.knownTags(exclusive...); len(known) > 0 {
		tests = append(tests, isOneOf("$$t.k", known))
	}
	return anyOf(tests...)
}

// idle tests that a document may be deleted:
//
//   - It has no field but _id, the lock and the shard key's, if that names no
//     nested field.
//   - The lock has no live entry.
//   - Its fence, which follows the clock, is at least that long ago. A document
//     without a fence has just been made by an upsert, and is about to be locked.
//   - It has no `done`. A late repeat of a last write would not find its id in a
//     document that was made anew, and report that it was not applied (rule 18).
//
// Fields are counted rather than compared: a collation may take "Lock" for "lock".
func (d decision) idle(idle time.Duration, shardKey []string) expr {
	fields := args{2}
	for _, key := range shardKey {
		if !strings.Contains(key, ".") {
			fields = append(fields, present("$"+key))
		}
	}
	return cond(call("$eq", call("$type", d.lock), "object"),
		all(
			call("$eq", count("$$ROOT"), call("$add", fields...)),
			call("$eq", count(d.lock), call("$add", 1, present(d.lock+"."+tagsKey), present(d.lock+"."+versionKey))),
			call("$gt", d.lock+"."+fenceKey, 0),
			call("$lte", d.lock+"."+fenceKey, call("$subtract", call("$toLong", d.now), idle.Milliseconds())),
			not(d.someEntry(nil, d.live())),
		), false)
}

// count is the number of a document's fields.
func count(document string) bson.D { return call("$size", call("$objectToArray", document)) }

// present is 1 if there is such a field, and else 0.
func present(path string) bson.D { return cond(call("$eq", call("$type", path), "missing"), 0, 1) }

// when is a part of a filter: a test of a lock of ours, and what holds for a
// foreign one.
//
// DocumentDB refuses $$NOW in a filter that it tries to answer from an index: a
// comparison, alone or in an $and. It answers no $cond from an index.
func (d decision) when(test expr, foreign bool) bson.E {
	return bson.E{Key: "$expr", Value: cond(d.wellFormed(), cond(test, true, false), foreign)}
}

// someEntry tests that an entry under one of the tags, or under any, passes all
// tests.
func (d decision) someEntry(tags []string, tests ...expr) expr {
	under := d.byTag()
	if len(tags) > 0 {
		under = filter(under, "t", isOneOf("$$t.k", tags))
	}
	return call("$anyElementTrue", args{mapped(under, "t", nth(filter("$$t.v", "e", all(tests...)), 0))})
}

// keepForeign guards a decision: a field that is not a lock of ours stays as it is.
// The same holds if a tag ([{k: tag, v: [entry, …]} in $$t]) fails one more
// test.
func (d decision) keepForeign(then expr, more ...expr) bson.D {
	wellFormed := d.wellFormed(more...)
	return cond(wellFormed, then, d.lock)
}

// wellFormed tests that the field is a lock of ours, of a version that this
// program knows.
//
// In MongoDB's order of all values, only numbers lie between two numbers, and a
// missing field comes before all of them.
func (d decision) wellFormed(more ...expr) expr {
	tags, fence := d.lock+"."+tagsKey, d.lock+"."+fenceKey
	documents := none("$$t.v", call("$ne", call("$type", "$$e"), "object"))
	return cond(
		all(
			call("$setIsSubset", args{call("$type", d.lock), call("$type", tags)}, args{"missing", "null", "object"}),
			call("$gte", orElse(fence, 0), 0),
			call("$lt", fence, long(fenceLimit)),
			call("$lte", d.lock+"."+versionKey, version),
		),
		call("$allElementsTrue", args{mapped(d.byTag(), "t", cond(call("$isArray", "$$t.v"),
			all(append([]expr{documents}, more...)...),
			call("$eq", call("$type", "$$t.v"), "null")))}),
		false)
}

// stage is the pipeline that sets the lock.
func (d decision) stage(lock expr) bson.A { return stage(d.lock[1:], lock) }

// stage builds a pipeline of one stage.
func stage(path string, e expr) bson.A {
	return bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: e}}}}}
}

// live tests that $$e excludes others: it has not expired, or has a mark that is not settled,
// and it passes more tests.
func (d decision) live(more ...expr) expr {
	return all(append([]expr{call("$or", call("$gt", "$$e."+expiresKey, d.now), d.marked())}, more...)...)
}

// marked tests that transactions under $$e may still be committed: it has a mark that the
// command doesn't name as settled.
func (d decision) marked() expr {
	mark := "$$e." + markIDKey
	marked := call("$eq", call("$type", mark), "binData")
	if len(d.settled) == 0 {
		return marked
	}
	return all(marked, not(call("$in", mark, idValues(d.settled))))
}

// survivors are the variables of the live entries of the known tags, without the
// exclusive ones, that pass more tests.
func (d decision) survivors(exclusive []string, more ...expr) bson.D {
	live := d.live(more...)
	var vars bson.D
	for _, tag := range d.knownTags(exclusive...) {
		vars = append(vars, bson.E{Key: d.survivorsOf(tag)[2:], Value: filter(d.lock+"."+tagsKey+"."+tag, "e", live)})
	}
	return vars
}

// unknown is the variable of the live entries under unknown tags that pass more tests.
func (d decision) unknown(more ...expr) bson.E {
	others := filter(d.byTag(), "t", not(isOneOf("$$t.k", d.knownTags())))
	pruned := mapped(others, "t", bson.D{{Key: "k", Value: "$$t.k"}, {Key: "v", Value: filter("$$t.v", "e", d.live(more...))}})
	return bson.E{Key: "strange", Value: filter(pruned, "t", nth("$$t.v", 0))}
}

func (d decision) byTag() bson.D { return call("$objectToArray", orElse(d.lock+"."+tagsKey, bson.D{})) }

// survivorsOf is the name of a known tag's variable.
func (d decision) survivorsOf(tag string) string {
	return fmt.Sprintf("$$live%d", slices.Index(d.order, tag))
}

// next is the next value of lock.fence. It is never behind the clock, so it
// goes on increasing after the document was deleted and made again.
func (d decision) next() bson.D {
	return call("$toLong", call("$max", args{call("$add", d.lock+"."+fenceKey, 1), call("$toLong", d.now)}))
}

// exhausted are the tests that $$next can't be given out: the server's clock is not
// after 1970, or the number is too great to be exact in every type.
func (d decision) exhausted() []expr {
	return []expr{call("$lte", call("$toLong", d.now), 0), call("$gte", "$$next", long(fenceLimit))}
}

// put builds the lock with new tags.
func (d decision) put(fence, tags expr) bson.D {
	return call("$mergeObjects", d.lock, bson.D{{Key: fenceKey, Value: fence}, {Key: tagsKey, Value: tags}})
}

// with builds the known tags, with the entry e added to the survivors of its
// own tag. Empty tags are left out. An exclusive tag has no survivors.
func (d decision) with(e expr, exclusive ...string) bson.D {
	var tags bson.D
	for _, tag := range d.order {
		entries, empty := d.survivorsOf(tag), slices.Contains(exclusive, tag)
		switch {
		case tag == d.tag && empty:
			tags = append(tags, bson.E{Key: tag, Value: args{e}})
		case tag == d.tag:
			tags = append(tags, bson.E{Key: tag, Value: call("$concatArrays", orElse(entries, args{}), args{e})})
		case !empty:
			tags = append(tags, bson.E{Key: tag, Value: cond(nth(entries, 0), entries, "$$REMOVE")})
		}
	}
	return tags
}

// withAll is with, and the survivors under unknown tags.
func (d decision) withAll(e expr) bson.D {
	return call("$mergeObjects", call("$arrayToObject", "$$strange"), d.with(e))
}

// knownTags are those of the rules without the exclusive ones.
func (d decision) knownTags(exclusive ...string) []string {
	return slices.DeleteFunc(slices.Clone(d.order), func(tag string) bool { return slices.Contains(exclusive, tag) })
}

// isOneOf tests that a tag is one of these, letter by letter. The names need no
// quoting. A plain $ would also match before a line break at the end.
func isOneOf(tag expr, tags []string) bson.D {
	names := "^(" + strings.Join(tags, "|") + `)$(?!\n)`
	return bson.D{{Key: "$regexMatch", Value: bson.D{{Key: "input", Value: tag}, {Key: "regex", Value: names}}}}
}

// arrivalRules sorts the relations of an arrival. In an exclusive tag no entry
// may be live. The other tests count the entries of a tag against `allow`.
// Without joins, what blocks an arrival refuses it.
func (d decision) arrivalRules(joins bool) (exclusive []string, refused, blocked []expr) {
	for _, tag := range d.order {
		r := d.rules[d.tag][tag]
		test := nth(d.survivorsOf(tag), r.Allow)
		switch effect := r.Kind.Arriving(); {
		case effect == relations.Ignored:
		case effect == relations.Blocked && joins:
			blocked = append(blocked, test)
		case r.Allow == 0:
			exclusive = append(exclusive, tag)
		default:
			refused = append(refused, test)
		}
	}
	return exclusive, refused, blocked
}

// waits reports whether an entry of this tag may wait.
func (d decision) waits() bool {
	_, _, blocked := d.arrivalRules(true)
	return blocked != nil
}

// extended moves an expiry to ms from now, but never back: a delayed older
// command must not shorten a lease.
func (d decision) extended(entry string, ms expr) bson.D {
	return call("$max", args{entry + "." + expiresKey, call("$add", d.now, ms)})
}

// others are the entries of the own tag except the one with this id.
func others(array string, id expr) bson.D {
	return filter(array, "e", call("$ne", "$$e."+idKey, id))
}

// inPlace maps the entries of the own tag and changes only those with this id.
func inPlace(array string, id expr, change bson.D) bson.D {
	return inPlaceBy(idKey, array, id, change)
}

// inPlaceBy is inPlace by another field than the id.
func inPlaceBy(field, array string, is expr, change bson.D) bson.D {
	return mapped(array, "e", cond(call("$eq", "$$e."+field, is), call("$mergeObjects", "$$e", change), "$$e"))
}

// hasEntry tests that the entry is under the own tag, held or waiting, whatever
// the field holds.
func (d decision) hasEntry(id expr) expr {
	return call("$in", id, arrayOf(d.own+"."+idKey))
}

// granted tests that the resulting document has the entry as a held one.
func (d decision) granted(id expr) expr {
	if !d.waits() {
		return d.hasEntry(id)
	}
	own := filter(arrayOf(d.own), "e", call("$eq", "$$e."+idKey, id))
	return nth(mapped(own, "e", "$$e."+fenceKey), 0)
}

// newEntry has the expressions of an entry that a pipeline makes. A nil one is left
// out.
type newEntry struct{ id, owner, seq, fence, since, expires, key, until expr }

// document has the fields in the order that all entries have.
func (e newEntry) document() (doc bson.D) {
	for _, field := range (bson.D{
		{Key: idKey, Value: e.id},
		{Key: ownerKey, Value: e.owner},
		{Key: seqKey, Value: e.seq},
		{Key: fenceKey, Value: e.fence},
		{Key: sinceKey, Value: e.since},
		{Key: expiresKey, Value: e.expires},
		{Key: tokenKey, Value: e.key},
		{Key: untilKey, Value: e.until},
	}) {
		if field.Value != nil {
			doc = append(doc, field)
		}
	}
	return doc
}

// newGrant is the entry of a grant.
func (d decision) newGrant(id, owner expr) newEntry {
	entry := newEntry{id: id, owner: owner, seq: "$$next", fence: "$$next", since: d.now, expires: call("$add", d.now, d.granting())}
	if d.until > 0 {
		entry.until = d.keptOut()
	}
	return entry
}

// inherited is what the entry $$e passes on to one that takes its place under
// another id.
func inherited() newEntry {
	return newEntry{owner: "$$e." + ownerKey, seq: "$$e." + seqKey, fence: "$$e." + fenceKey, since: "$$e." + sinceKey}
}

// granting is for how many milliseconds a grant keeps its entry.
func (d decision) granting() int64 { return max(d.held, d.until) }

// keptOut is the time until which a grant keeps others out, whatever its holder
// does.
func (d decision) keptOut() bson.D { return call("$add", d.now, d.until) }

// change builds the lock with other entries of the own tag.
func (d decision) change(fence, entries expr) bson.D {
	return d.put(fence, call("$mergeObjects", d.lock+"."+tagsKey, bson.D{{Key: d.tag, Value: entries}}))
}

// The operators.

type (
	expr = any
	args = bson.A
)

func call(operator string, operands ...expr) bson.D {
	if len(operands) == 1 {
		return bson.D{{Key: operator, Value: operands[0]}}
	}
	return bson.D{{Key: operator, Value: args(operands)}}
}

func not(e expr) bson.D                  { return bson.D{{Key: "$not", Value: args{e}}} }
func cond(test, then, other expr) bson.D { return call("$cond", test, then, other) }
func nth(array expr, n int) bson.D       { return call("$arrayElemAt", array, n) }

// all and anyOf take at least one test. A single test needs no operator around
// it.
func all(tests ...expr) expr {
	if len(tests) == 1 {
		return tests[0]
	}
	return call("$and", tests...)
}

func anyOf(tests ...expr) expr {
	if len(tests) == 1 {
		return tests[0]
	}
	return call("$or", tests...)
}

func let(vars bson.D, in expr) bson.D {
	return bson.D{{Key: "$let", Value: bson.D{{Key: "vars", Value: vars}, {Key: "in", Value: in}}}}
}

func over(operator string, input expr, as, clause string, body expr) bson.D {
	return bson.D{{Key: operator, Value: bson.D{{Key: "input", Value: input}, {Key: "as", Value: as}, {Key: clause, Value: body}}}}
}

func filter(input expr, as string, test expr) bson.D { return over("$filter", input, as, "cond", test) }
func mapped(input expr, as string, in expr) bson.D   { return over("$map", input, as, "in", in) }

// none tests that no entry of an array passes a test.
func none(array string, test expr) bson.D { return call("$eq", filter(array, "e", test), args{}) }

func orElse(e, other expr) bson.D { return call("$ifNull", e, other) }

// arrayOf is the array e, or an empty one if e is no array.
func arrayOf(e expr) bson.D { return cond(call("$isArray", e), e, args{}) }
