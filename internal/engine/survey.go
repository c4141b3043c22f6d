package engine

import (
	"context"
	"iter"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

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
	projection := e.image.fill(uuid.Nil, e.now()).document()
	var found bson.Raw
	if err := e.visit(ctx, majorityRead, search{comment: forAdmin, filter: f.doc, fields: projection}, func(doc bson.Raw) { found = doc }); err != nil {
		return nil, err
	}
	return e.readImage(found, nil)
}

// Survey begins to read the images of the documents, in the order in which the
// server finds them. The server's clock is read once, now. A document whose lock
// field is foreign comes with an error of CauseForeign, and the survey goes on. If
// the survey names tags, it is found only where it has one of them. Any other error
// ends the survey. The caller must range over it, which closes it.
//
// An image is valid until the next one.
func (e *Engine) Survey(ctx context.Context, s Survey) (iter.Seq2[*Image, error], error) {
	projection := e.image.fill(uuid.Nil, e.now()).document()
	found, err := e.find(ctx, majorityRead, search{comment: forAdmin, filter: e.surveyed(s), fields: projection, batch: surveyBatch})
	switch {
	case noCollection(err):
		return func(func(*Image, error) bool) {}, nil
	case err != nil:
		return nil, e.failed(err)
	}
	return func(yield func(*Image, error) bool) {
		if err := found.each(ctx, func(doc bson.Raw) bool { return yield(e.imageOf(doc)) }); err != nil {
			yield(nil, e.failed(err))
		}
	}, nil
}

// surveyed is the filter of a survey. The paths under the tags let an index on
// [IndexedPath] help.
func (e *Engine) surveyed(s Survey) bson.D {
	d := e.anyDecision()
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

// anyDecision is a decision for no tag in particular.
func (e *Engine) anyDecision() decision {
	return decision{lock: "$" + e.field, now: e.serverTime()}
}

// when is a part of a filter: a test of a lock of ours, and what holds for a
// foreign one.
//
// DocumentDB refuses $$NOW in a filter that it tries to answer from an index: a
// comparison, alone or in an $and. It answers no $cond from an index.
func (d decision) when(test expr, foreign bool) bson.E {
	return bson.E{Key: "$expr", Value: cond(d.wellFormed(), cond(test, true, false), foreign)}
}

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
		tests = append(tests, not(d.live()))
	}
	return tests
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
