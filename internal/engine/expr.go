package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The decision is built from aggregation expressions. Their variables are:
//
//	$$live0…   the live entries of others, an array for each tag of the rules, in their order, or null
//	$$strange  the live entries under unknown tags, as [{k: tag, v: [entry, …]}, …]: of a confirm
//	$$next     the next value of lock.fence
//	$$again    the arriving entry is in the document already
//	$$own      the entry that the command confirms
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

// ours guards a decision: a field that is not a lock of ours stays as it is.
// The same holds if a tag ([{k: tag, v: [entry, …]} in $$t]) fails one more
// test.
func (d decision) ours(then expr, more ...expr) bson.D {
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

// stage builds a pipeline of one stage.
func stage(path string, e expr) bson.A {
	return bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: e}}}}}
}

// live tests that $$e excludes others: it has not expired, and it is not one of
// the excepted entries.
func (d decision) live(except ...expr) expr {
	tests := []expr{call("$gt", "$$e."+expiresKey, d.now)}
	for _, id := range except {
		tests = append(tests, call("$ne", "$$e."+idKey, id))
	}
	return all(tests...)
}

// survivors are the variables of the live entries of the known tags, without
// the exclusive ones.
func (d decision) survivors(exclusive []string, except ...expr) bson.D {
	live := d.live(except...)
	var vars bson.D
	for _, tag := range d.known(exclusive...) {
		vars = append(vars, bson.E{Key: d.survivorsOf(tag)[2:], Value: filter(d.lock+"."+tagsKey+"."+tag, "e", live)})
	}
	return vars
}

// unknown is the variable of the live entries under unknown tags.
func (d decision) unknown() bson.E {
	others := filter(d.byTag(), "t", not(isOneOf("$$t.k", d.known())))
	pruned := mapped(others, "t", bson.D{{Key: "k", Value: "$$t.k"}, {Key: "v", Value: filter("$$t.v", "e", d.live())}})
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

// known are the known tags without the exclusive ones.
func (d decision) known(exclusive ...string) []string {
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

// arrival is the pipeline of acquire. All live entries count, held or waiting.
// With joins, an entry that only assertive relations block is written as a
// waiting entry; without, nothing is written.
func (d decision) arrival(field string, joins bool, id expr, owner string) bson.A {
	exclusive, refused, blocked := d.arrivalRules(joins)
	joins = len(blocked) > 0

	var fence, lease, ownLease expr = "$$next", d.granting(), d.held
	if d.waits() {
		ownLease = cond("$$e."+fenceKey, d.held, d.wait)
	}
	if joins {
		fence = cond("$$waits", "$$REMOVE", "$$next")
		lease = cond("$$waits", d.wait, lease)
	}
	entry := newEntry{id: id, owner: call("$literal", owner), seq: "$$next", fence: fence, since: d.now, expires: call("$add", d.now, lease)}
	switch {
	case d.until > 0 && joins:
		entry.until = cond("$$waits", "$$REMOVE", d.keptOut())
	case d.until > 0:
		entry.until = d.keptOut()
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
	return stage(field, let(bson.D{{Key: "again", Value: d.there(id)}}, d.ours(cond("$$again", repeat, arrive), d.empty(exclusive, "$$again"))))
}

// empty tests that $$t has no live entry, if it is an unknown tag or an exclusive one,
// and the test that it gets fails.
func (d decision) empty(exclusive []string, or ...expr) expr {
	tests := append(or, none("$$t.v", d.live()))
	if known := d.known(exclusive...); len(known) > 0 {
		tests = append(tests, isOneOf("$$t.k", known))
	}
	return anyOf(tests...)
}

// renewal is the pipeline of renew. The filter has already checked that the
// entry is present.
func (d decision) renewal(id expr) bson.A {
	return stage(d.own[1:], inPlace(d.own, id, bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}}))
}

// there tests that the entry is under the own tag, held or waiting, whatever
// the field holds.
func (d decision) there(id expr) expr {
	return call("$in", id, arrayOf(d.own+"."+idKey))
}

// granted tests that the resulting document has the entry as a held one.
func (d decision) granted(id expr) expr {
	if !d.waits() {
		return d.there(id)
	}
	own := filter(arrayOf(d.own), "e", call("$eq", "$$e."+idKey, id))
	return nth(mapped(own, "e", "$$e."+fenceKey), 0)
}
