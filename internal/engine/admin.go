package engine

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Exact names one entry by its tag, id and fencing token. An entry that was
// granted or resumed since is another one.
type Exact struct {
	Pin   Pin
	Tag   string
	ID    uuid.UUID
	Fence int64 // 0 for a waiting entry

	// Expired, if it is set, is the entry's expiry. The entry is removed only if
	// it was not extended since, and the server's clock has reached that time.
	Expired time.Time

	// Settled is the entry's mark, which is settled. An entry with another mark stays.
	Settled uuid.UUID
}

// RemoveExactly removes one entry, whoever holds it, and whatever its key and
// its `until` are. A held one leaves its fencing token in the lock, for the verdict of
// its holder's release. It returns the image from before, or nil if the entry was
// not there.
func (e *Engine) RemoveExactly(ctx context.Context, x Exact) (*Image, error) {
	filter, update := e.exactly(x)
	img, err := e.readImage(e.change(ctx, change{comment: forAdmin, query: filter, update: update, new: no, fields: e.projection(Request{})}))
	if img == nil && err == nil {
		err = e.absent(ctx, filter)
	}
	return img, err
}

// RemoveEach removes several entries in one command, and returns how many it
// removed. Each one is removed by itself: an error may come beside a number.
func (e *Engine) RemoveEach(ctx context.Context, entries []Exact) (removed int64, err error) {
	entries = slices.Clone(entries)
	slices.SortStableFunc(entries, func(a, b Exact) int { return a.Pin.Compare(b.Pin) })
	statements := make([]bson.Raw, len(entries))
	for i, x := range entries {
		statements[i] = updateOf(e.exactly(x))
	}
	reply, err := e.statements(ctx, e.name, forAdmin, "update", statements...)
	return counted(reply, "nModified"), err
}

// DeleteIdle deletes documents that hold nothing but a lock without a live
// entry, and returns how many it deleted. idle is how long ago the last entry
// was granted or joined.
func (e *Engine) DeleteIdle(ctx context.Context, pins []Pin, idle time.Duration) (deleted int64, err error) {
	pins = slices.Clone(pins)
	slices.SortStableFunc(pins, Pin.Compare)
	d := e.decision("", 0)
	statements := make([]bson.Raw, len(pins))
	for i, pin := range pins {
		statements[i] = assemble(0).add("q", value(pin.and(d.when(d.idle(idle, e.ShardKey), false)))).add("limit", value(1)).end()
	}
	reply, err := e.statements(ctx, e.name, forAdmin, "delete", statements...)
	return counted(reply, "n"), err
}

// exactly is the filter and the update that remove one entry. A lock that is
// foreign by now is left as it is.
func (e *Engine) exactly(x Exact) (filter, update bson.D) {
	var fence any = x.Fence
	if x.Fence == 0 {
		fence = bson.D{{Key: "$in", Value: bson.A{nil, 0}}}
	}
	entry := bson.D{{Key: idKey, Value: idValue(x.ID)}, {Key: fenceKey, Value: fence}, markAmong(x.Settled)}
	d, path := e.decision("", 0), e.path(x.Tag)
	var test expr = true
	if !x.Expired.IsZero() {
		entry = append(entry, bson.E{Key: expiresKey, Value: x.Expired})
		test = call("$lte", x.Expired, d.now)
	}
	filter = x.Pin.and(e.having(x.Tag, entry), d.when(test, false))
	update = bson.D{{Key: "$pull", Value: bson.D{{Key: path, Value: entry}}}}
	if x.Fence != 0 && x.Expired.IsZero() { // its holder may count it as valid
		update = append(update, bson.E{Key: "$max", Value: bson.D{{Key: e.Field + "." + brokenKey, Value: x.Fence}}})
	}
	return filter, update
}

// surveyBatch is the number of documents in one answer of a survey. Its memory
// is bounded by it, and its first document comes soon.
const surveyBatch = 500

// Survey says which documents a survey reads: those with an entry that passes
// all tests. The zero Survey finds every entry.
type Survey struct {
	Within Filter        // what else the document must match; the zero Filter is nothing
	Tags   []string      // the entry is under one of these; nil for any. Names as rules have them
	Owner  string        // the entry's owner; "" for any
	Age    time.Duration // since its arrival, at least; 0 for any

	Live, Expired bool // the entry has not expired, or it has; not both

	// Idle, if it is set, asks for the documents that [Engine.DeleteIdle] would
	// delete, whatever the tests say.
	Idle time.Duration
}

// Find reads the image of one document that the filter matches. It is nil if
// there is none. If the lock field is foreign, the image has no lock, and the
// failure's cause is CauseForeign.
func (e *Engine) Find(ctx context.Context, f Filter) (*Image, error) {
	docs, err := e.all(ctx, majorityRead, search{comment: forAdmin, filter: f.doc, fields: e.projection(Request{})})
	return e.firstImage(docs, err)
}

// Survey begins to read the images of the documents, in the server's order; the
// server's clock is read once. The caller must range over it. A foreign lock field comes
// with an error of CauseForeign, if it has one of the survey's tags, and the survey goes
// on. Any other error ends it. An image is valid until the next one.
func (e *Engine) Survey(ctx context.Context, s Survey) (iter.Seq2[*Image, error], error) {
	found, err := e.find(ctx, majorityRead, search{comment: forAdmin, filter: e.surveyed(s), fields: e.projection(Request{}), batch: surveyBatch})
	switch {
	case noCollection(err):
		return func(func(*Image, error) bool) {}, nil
	case err != nil:
		return nil, e.failed(err)
	}
	return func(yield func(*Image, error) bool) {
		if err := each(ctx, found, func(doc bson.Raw) bool { return yield(e.imageOf(doc)) }); err != nil {
			yield(nil, e.failed(err))
		}
	}, nil
}

// Seen are the fields of a document that [Engine.ImageIn] reads.
func (e *Engine) Seen() bson.D {
	seen := bson.D{{Key: e.Field, Value: 1}, {Key: nowKey, Value: e.serverTime()}}
	for _, key := range e.ShardKey {
		seen = append(seen, bson.E{Key: key, Value: 1})
	}
	return seen
}

// ImageIn is the image in a document that others have found.
func (e *Engine) ImageIn(doc bson.Raw) (*Image, error) {
	if err := doc.Validate(); err != nil {
		return nil, fmt.Errorf("the document is no BSON: %w", err)
	}
	if _, found := doc.Lookup(nowKey).TimeOK(); !found || doc.Lookup("_id").IsZero() {
		return nil, errors.New("the document has no _id, or not the server's time: its query needs the fields of Projection")
	}
	return e.imageOf(doc)
}

// surveyed is the filter of a survey. The paths under the tags let an index on
// [IndexedPath] help.
func (e *Engine) surveyed(s Survey) bson.D {
	d := e.decision("", 0)
	var all bson.D
	if s.Within.doc != nil {
		all = append(all, bson.E{Key: "$and", Value: bson.A{s.Within.doc}})
	}
	if len(s.Tags) > 0 {
		var under bson.A
		for _, tag := range s.Tags {
			under = append(under, bson.D{{Key: e.IndexedPath(tag), Value: bson.D{{Key: "$exists", Value: true}}}})
		}
		all = append(all, bson.E{Key: "$or", Value: under})
	}
	if s.Idle > 0 {
		return append(all, d.when(d.idle(s.Idle, e.ShardKey), false))
	}
	return append(all, d.when(d.someEntry(s.Tags, d.tests(s)...), true))
}

// IndexedPath is the path of the ids of a tag's entries. An index on it has the
// documents with entries of the tag alone, and renewals leave it as it is.
func (e *Engine) IndexedPath(tag string) string { return e.path(tag) + "." + idKey }

// tests are a survey's tests of $$e.
func (d decision) tests(s Survey) []expr {
	tests := []expr{true}
	if s.Owner != "" {
		tests = append(tests, call("$eq", "$$e."+ownerKey, bson.D{{Key: "$literal", Value: s.Owner}}))
	}
	if s.Age > 0 {
		tests = append(tests, call("$lte", "$$e."+sinceKey, call("$subtract", d.now, s.Age.Milliseconds())))
	}
	if s.Live {
		tests = append(tests, d.live())
	}
	if s.Expired {
		tests = append(tests, not(call("$gt", "$$e."+expiresKey, d.now)))
	}
	return tests
}

// Probe sends an acquire and a majority read for a document that doesn't exist, and writes
// nothing. An error is that of the command which it names.
func Probe(ctx context.Context, coll *mongo.Collection) (needsShardKey bool, command string, err error) {
	rules := relations.Exclusive()
	e, err := New(coll, rules, Config{Terms: Terms{TTL: DefaultTTL, Owner: "doclock.CheckServer"}, Field: DefaultField})
	if err != nil {
		return false, "", err
	}
	tag, id := rules.Tags()[0], uuid.New()
	nowhere, err := e.ParseFilter(bson.D{{Key: "_id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}}})
	if err != nil {
		return false, "", err
	}
	_, err = e.Acquire(ctx, nowhere, Request{Tag: tag, ID: id, Document: true})
	if needsShardKey = err != nil && AsFailure(err).Cause == CauseShardKey; err != nil && !needsShardKey { // a router knows the command, too
		return false, "an acquire", err
	}
	_, _, err = e.Standing(ctx, []Grant{{Pin: nowhere.Pin, Entry: Entry{Tag: tag, ID: id}}})
	return needsShardKey, "a majority read", err
}
