package engine

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The decision, as aggregation expressions. Variables inside them:
//
//	$$live0…   the live entries of others, an array for each tag of the table, in their order, or null
//	$$strange  those under tags that the table doesn't know, as [{k: tag, v: [entry, …]}, …]: of a confirm
//	$$next     the next number of this document
//	$$again    the entry that arrives is there already
//	$$own      the entry that is being confirmed
//	$$t, $$e   a tag, an entry inside $filter and $map
//
// Nothing in them raises, whatever the field holds, and in whatever order a
// server evaluates them. The manual lets it evaluate an operand of $and or $or
// that isn't needed, and MongoDB evaluates all variables of a $let: so none of
// these protects another. $cond does: its test comes first, and the branch
// that wasn't chosen is not evaluated.
//
// A shape was chosen for its cost where several say the same: testing the
// element at index n is cheaper than counting an array, `$in` over ids cheaper
// than a `$filter`, and an array at a known path much cheaper than one that was
// made by $objectToArray (beside 1,000 entries, half of the whole command).
// DocumentDB evaluates a variable of a $let anew for each use: $$again has no
// place inside of a $filter.
//
// Texts are compared by the collection's collation, which may ignore case:
// so tags are told by their paths and by $regexMatch, which knows no collation.

// decision builds the expressions for one table, one tag and one field.
type decision struct {
	lock  string // "$lock"
	own   string // "$lock.tags.read"
	tag   string
	rules relations.Rules
	order []string       // the tags of the table, sorted
	place map[string]int // of a tag in it
	now   expr
	held  int64 // milliseconds that a held entry is kept: TTL + tolerance
	wait  int64 // the same for a waiting one
}

// ours guards a decision: where the field is not a lock of ours, it stays as
// it is; and so it does where a tag [{k: tag, v: [entry, …]} in $$t] fails one
// more test.
//
// In MongoDB's order of all values, what lies between two numbers is a number.
func (d decision) ours(then expr, more ...expr) bson.D {
	tags, fence := d.lock+"."+tagsKey, d.lock+"."+fenceKey
	documents := none("$$t.v", call("$ne", call("$type", "$$e"), "object"))
	wellFormed := cond(
		all(
			call("$setIsSubset", args{call("$type", d.lock), call("$type", tags)}, args{"missing", "null", "object"}),
			call("$gte", orElse(fence, 0), 0),
			call("$lt", fence, long(fenceLimit)),
		),
		call("$allElementsTrue", args{mapped(d.byTag(), "t", cond(call("$isArray", "$$t.v"),
			all(append([]expr{documents}, more...)...),
			call("$eq", call("$type", "$$t.v"), "null")))}),
		false)
	return cond(wellFormed, then, d.lock)
}

// stage is the one stage of a pipeline.
func stage(path string, e expr) bson.A {
	return bson.A{bson.D{{Key: "$set", Value: bson.D{{Key: path, Value: e}}}}}
}

// live says of $$e that it excludes others: it has not expired, and it is not
// one of the entries to be left out.
func (d decision) live(except ...expr) expr {
	tests := []expr{call("$gt", "$$e."+expiresKey, d.now)}
	for _, id := range except {
		tests = append(tests, call("$ne", "$$e."+idKey, id))
	}
	return all(tests...)
}

// survivors are the variables of the live entries of the table's tags, without
// those that are barred.
func (d decision) survivors(barred []string, except ...expr) bson.D {
	live := d.live(except...)
	var vars bson.D
	for _, tag := range d.order {
		if !slices.Contains(barred, tag) {
			vars = append(vars, bson.E{Key: d.survivorsOf(tag)[2:], Value: filter(d.lock+"."+tagsKey+"."+tag, "e", live)})
		}
	}
	return vars
}

// strange is the variable of the live entries under tags that the table
// doesn't know.
func (d decision) strange() bson.E {
	unknown := filter(d.byTag(), "t", not(isOneOf("$$t.k", d.known())))
	pruned := mapped(unknown, "t", bson.D{{Key: "k", Value: "$$t.k"}, {Key: "v", Value: filter("$$t.v", "e", d.live())}})
	return bson.E{Key: "strange", Value: filter(pruned, "t", nth("$$t.v", 0))}
}

func (d decision) byTag() bson.D { return call("$objectToArray", orElse(d.lock+"."+tagsKey, bson.D{})) }

// survivorsOf is the variable of a tag of the table.
func (d decision) survivorsOf(tag string) string {
	return fmt.Sprintf("$$live%d", d.place[tag])
}

// next is the number after the last one, and never behind the clock: it goes
// on increasing after the document was deleted and made again.
func (d decision) next() bson.D {
	return call("$toLong", call("$max", args{call("$add", d.lock+"."+fenceKey, 1), call("$toLong", d.now)}))
}

// put is the lock with other tags.
func (d decision) put(fence, tags expr) bson.D {
	return call("$mergeObjects", d.lock, bson.D{{Key: fenceKey, Value: fence}, {Key: tagsKey, Value: tags}})
}

// with are the tags of the table with entry e added to the survivors under the
// own one. Emptied tags are left out, and under a barred one nobody else is.
func (d decision) with(e expr, barred ...string) bson.D {
	var tags bson.D
	for _, tag := range d.order {
		entries, empty := d.survivorsOf(tag), slices.Contains(barred, tag)
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

// known are the tags of the caller's table, without those that are barred.
func (d decision) known(barred ...string) (tags []string) {
	for _, tag := range d.order {
		if !slices.Contains(barred, tag) {
			tags = append(tags, tag)
		}
	}
	return tags
}

// isOneOf says that a tag is one of these, letter by letter. Their names need
// no quoting; and $ alone would also match before a line break at the end.
func isOneOf(tag expr, tags []string) bson.D {
	names := "^(" + strings.Join(tags, "|") + `)$(?!\n)`
	return bson.D{{Key: "$regexMatch", Value: bson.D{{Key: "input", Value: tag}, {Key: "regex", Value: names}}}}
}

// arrivalRules sorts the relations of an arrival: the tags where nobody may be
// alive, which are barred, and the tests of the others, that more than `allow`
// entries are there. An assertive relation refuses those who would not wait,
// and blocks those who join.
func (d decision) arrivalRules(joins bool) (barred []string, refused, blocked []expr) {
	for _, tag := range slices.Sorted(maps.Keys(d.rules[d.tag])) {
		r := d.rules[d.tag][tag]
		test := nth(d.survivorsOf(tag), r.Allow)
		switch {
		case r.Kind == relations.None:
		case r.Kind == relations.Assertive && joins:
			blocked = append(blocked, test)
		case r.Allow == 0:
			barred = append(barred, tag)
		default:
			refused = append(refused, test)
		}
	}
	return barred, refused, blocked
}

// waits says that an entry of this tag may wait.
func (d decision) waits() bool {
	for _, r := range d.rules[d.tag] {
		if r.Kind == relations.Assertive {
			return true
		}
	}
	return false
}

// extended is an expiry moved to ms from now, but never back: a delayed older
// command must not shorten a lease.
func (d decision) extended(entry string, ms expr) bson.D {
	return call("$max", args{entry + "." + expiresKey, call("$add", d.now, ms)})
}

// others are the own tag's entries without the one with this id.
func others(array string, id expr) bson.D {
	return filter(array, "e", call("$ne", "$$e."+idKey, id))
}

// inPlace maps the own tag's entries, changing those that match id only.
func inPlace(array string, id expr, change bson.D) bson.D {
	return mapped(array, "e", cond(call("$eq", "$$e."+idKey, id), call("$mergeObjects", "$$e", change), "$$e"))
}

// arrival is the pipeline of acquire: judged against all live entries, held
// or waiting. With joins, an entry that only assertive relations block is
// written as waiting; without, nothing is.
func (d decision) arrival(field string, joins bool, id expr, owner string) bson.A {
	barred, refused, blocked := d.arrivalRules(joins)
	joins = len(blocked) > 0

	var fence, lease, ownLease expr = "$$next", d.held, d.held
	if d.waits() {
		ownLease = cond("$$e."+fenceKey, d.held, d.wait)
	}
	if joins {
		fence = cond("$$waits", "$$REMOVE", "$$next")
		lease = cond("$$waits", d.wait, d.held)
	}
	var entered expr = d.put("$$next", d.with(bson.D{
		{Key: idKey, Value: id},
		{Key: ownerKey, Value: bson.D{{Key: "$literal", Value: owner}}},
		{Key: seqKey, Value: "$$next"},
		{Key: fenceKey, Value: fence},
		{Key: sinceKey, Value: d.now},
		{Key: expiresKey, Value: call("$add", d.now, lease)},
	}, barred...))
	if joins {
		entered = let(bson.D{{Key: "waits", Value: anyOf(blocked...)}}, entered)
	}
	if len(refused) > 0 {
		entered = cond(anyOf(refused...), d.lock, entered)
	}
	arrive := let(append(d.survivors(barred), bson.E{Key: "next", Value: d.next()}), entered)

	repeat := call("$mergeObjects", d.lock, bson.D{{Key: tagsKey, Value: call("$mergeObjects", d.lock+"."+tagsKey,
		bson.D{{Key: d.tag, Value: inPlace(d.own, id, bson.D{{Key: expiresKey, Value: d.extended("$$e", ownLease)}})}})}})

	// Nobody may be alive under a tag that the table doesn't know, or that is
	// barred; but a repeat finds what it finds.
	free := []expr{"$$again", none("$$t.v", d.live())}
	if known := d.known(barred...); len(known) > 0 {
		free = append(free, isOneOf("$$t.k", known))
	}
	return stage(field, let(bson.D{{Key: "again", Value: d.there(id)}}, d.ours(cond("$$again", repeat, arrive), anyOf(free...))))
}

// confirmation is the pipeline of confirm: a waiting entry is judged against
// the live entries that are held or came earlier, by its cooperative relations
// too, for somebody who ignores it may have come in the meantime. Without an
// own entry it changes nothing: a pruned waiter must not rejoin as the last
// one in silence.
func (d decision) confirmation(field string, id expr) bson.A {
	counts := func(e string) expr {
		return call("$or", e+"."+fenceKey, call("$lt", e+"."+seqKey, "$$own."+seqKey))
	}
	var blocked []expr
	for _, tag := range slices.Sorted(maps.Keys(d.rules[d.tag])) {
		if r := d.rules[d.tag][tag]; r.Kind != relations.None {
			blocked = append(blocked, nth(filter(d.survivorsOf(tag), "e", counts("$$e")), r.Allow))
		}
	}
	blocked = append(blocked, nth(filter("$$strange", "t", nth(filter("$$t.v", "e", counts("$$e")), 0)), 0))

	granted := cond(call("$or", "$$waits", "$$own."+fenceKey), d.lock+"."+fenceKey, "$$next")
	entry := call("$mergeObjects", "$$own", bson.D{
		{Key: fenceKey, Value: cond("$$waits", "$$REMOVE", orElse("$$own."+fenceKey, "$$next"))},
		{Key: expiresKey, Value: d.extended("$$own", cond("$$waits", d.wait, d.held))},
	})
	judged := let(bson.D{{Key: "waits", Value: all(not("$$own."+fenceKey), anyOf(blocked...))}},
		d.put(granted, call("$mergeObjects", call("$arrayToObject", "$$strange"), d.with(entry))))

	own := nth(filter(d.own, "e", call("$eq", "$$e."+idKey, id)), 0)
	return stage(field, d.ours(
		let(append(d.survivors(nil, id), d.strange(), bson.E{Key: "next", Value: d.next()}, bson.E{Key: "own", Value: own}),
			cond(not("$$own"), d.lock, judged))))
}

// renewal is the pipeline of renew; the filter has made sure that the entry
// is there.
func (d decision) renewal(id expr) bson.A {
	return stage(d.own[1:], inPlace(d.own, id, bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}}))
}

// there says that the entry is under the own tag, held or waiting, whatever
// the field holds.
func (d decision) there(id expr) expr {
	return call("$in", id, arrayOf(d.own+"."+idKey))
}

// granted says of the resulting document that it holds the entry as held.
func (d decision) granted(id expr) expr {
	if !d.waits() {
		return d.there(id)
	}
	own := filter(arrayOf(d.own), "e", call("$eq", "$$e."+idKey, id))
	return nth(mapped(own, "e", "$$e."+fenceKey), 0)
}
