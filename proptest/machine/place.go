package machine

import (
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/proptest/model"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"pgregory.net/rapid"
)

// epoch is the time at which every run begins, by the server's clock.
var epoch = time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC).UnixMilli()

// place is one run's document on the server, and the model's beside it.
type place struct {
	t     *rapid.T
	coll  *mongo.Collection // the machine's own access
	id    string            // the document's
	count *tally.Tally

	model   model.Protocol
	doc     *model.Document // nil: there is none
	old     *model.Document // an old copy that an outside writer keeps
	foreign bson.RawValue   // the field's value if doc's field is foreign
	now     int64           // the server's clock

	alone bool // no outside writer comes

	ids    map[uuid.UUID]model.ID
	uuids  map[model.ID]uuid.UUID
	update model.Update // the last one that was sent

	leaving model.ID // whose release may have left a remainder, under an id that is new
}

func newPlace(t *rapid.T, coll *mongo.Collection, count *tally.Tally) *place {
	p := &place{
		t: t, coll: coll, id: uuid.NewString(), count: count, now: epoch,
		ids: map[uuid.UUID]model.ID{uuid.Nil: 0}, uuids: map[model.ID]uuid.UUID{},
	}
	p.alone = rapid.Bool().Draw(t, "alone")
	p.begin()
	return p
}

// time is the server's clock, in the form that the library embeds.
func (p *place) time() time.Time { return time.UnixMilli(p.now).UTC() }

// filter names the document as a caller would.
func (p *place) filter() bson.M { return bson.M{"_id": p.id} }

// pin names it as the engine does.
func (p *place) pin() engine.Pin { return engine.Pin{{Key: "_id", Value: p.id}} }

// newID is an id that is the same in every replay of a run.
func (p *place) newID() model.ID {
	n := len(p.ids)
	i := uuid.UUID(fmt.Appendf(nil, "an entry's id %02x", n))
	p.ids[i], p.uuids[model.ID(n)] = model.ID(n), i
	return model.ID(n)
}

// load reads what is stored, and the type of its lock.fence.
func (p *place) load() (*model.Document, bson.Type) {
	raw, err := p.coll.FindOne(p.t.Context(), p.filter()).Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, 0
	}
	if err != nil {
		p.t.Fatalf("read the document: %v", err)
	}
	doc, fence, err := p.parse(raw)
	if err != nil {
		p.t.Fatalf("the document can't be read: %v\n%s", err, raw)
	}
	return doc, fence
}

// settle compares the stored document with the model's, and goes on from it.
func (p *place) settle(doc *model.Document) {
	p.t.Helper()
	stored, fence := p.load()
	p.count.Checked(EngineStored, 1)
	before := p.doc
	if !model.Same(doc, stored) {
		p.t.Fatalf("the stored document is not the model's at %d:\nbefore: %v\nmodel:  %v\nstored: %v\n(-model +stored)\n%s",
			p.now-epoch, before, doc, stored, cmp.Diff(doc, stored, cmpopts.EquateEmpty()))
	}
	if before != nil && doc != nil && doc.Lock.Fence != before.Lock.Fence && fence != bson.TypeInt64 {
		p.t.Fatalf("the new fence is of type %s", fence)
	}
	p.doc = doc
}

// advance sets the server's clock.
func (p *place) advance(t *rapid.T) {
	var ends []int64
	for _, e := range p.doc.All() {
		if e.Expires > p.now {
			ends = append(ends, e.Expires)
		}
	}
	switch kind := rapid.IntRange(0, 5).Draw(t, "kind of time"); {
	case kind < 2 && len(ends) > 0: // near the expiry of an entry
		p.now = pick(t, "end", ends) + rapid.Int64Range(-1, 1).Draw(t, "beside it")
	case kind == 5: // backwards, within the protocol's limits
		p.now -= rapid.Int64Range(0, 400).Draw(t, "ms back")
	default:
		p.now += pick(t, "ms", []int64{1, 0, 100, 1000, 1000, 3000, 20_000, 100_000})
	}
	t.Logf("it is %d", p.now-epoch)
}

// nextUpdate is an update of the caller's, classic or a pipeline, with the
// label that the model appends to its log.
func (p *place) nextUpdate(t *rapid.T) (model.Update, any) {
	p.update++
	if rapid.Bool().Draw(t, "pipeline") {
		log := bson.M{"$ifNull": bson.A{"$log", bson.A{}}}
		return p.update, bson.A{bson.M{"$set": bson.M{"log": bson.M{"$concatArrays": bson.A{log, bson.A{int(p.update)}}}}}}
	}
	return p.update, bson.M{"$push": bson.M{"log": int(p.update)}}
}

func isPipeline(update any) bool {
	_, pipeline := update.(bson.A)
	return pipeline
}

// pick draws one of several; a trace shows only its index.
func pick[T any](t *rapid.T, label string, of []T) T {
	return of[rapid.IntRange(0, len(of)-1).Draw(t, label)]
}

// usually draws one of those that are in the document, and sometimes any.
func usually[T any](t *rapid.T, there, all []T) T {
	if len(there) > 0 && rapid.IntRange(0, 4).Draw(t, "any") < 4 {
		return pick(t, "who", there)
	}
	if len(all) == 0 {
		t.Skip("there is none yet")
	}
	return pick(t, "who", all)
}
