package machine

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strconv"
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
	if rapid.IntRange(0, 9).Draw(t, "the clock") == 0 { // is at an end of its range
		p.now = rapid.SampledFrom([]int64{0, 1<<53 - 2000}).Draw(t, "begins at")
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
		p.now = max(p.now-rapid.Int64Range(0, 400).Draw(t, "ms back"), 0)
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

// entry is an entry in the form that is stored.
type entry struct {
	ID       id            `bson:"id"`
	Owner    string        `bson:"owner"`
	Seq      number        `bson:"seq"`
	Fence    number        `bson:"fence,omitempty"`
	Since    bson.DateTime `bson:"since"`
	Expires  bson.DateTime `bson:"expires,omitempty"`
	N        number        `bson:"n,omitempty"`
	Key      id            `bson:"key,omitempty"`
	Detached bool          `bson:"detached,omitempty"`
	Until    bson.DateTime `bson:"until,omitempty"`
	Other    bson.M        `bson:",inline"` // what the model has no form for
}

type id uuid.UUID

func (i id) IsZero() bool { return i == id{} }

func (i id) MarshalBSONValue() (byte, []byte, error) {
	kind, data, err := bson.MarshalValue(bson.Binary{Subtype: bson.TypeBinaryUUID, Data: i[:]})
	return byte(kind), data, err
}

func (i *id) UnmarshalBSONValue(kind byte, value []byte) error {
	v := bson.RawValue{Type: bson.Type(kind), Value: value}
	subtype, data, ok := v.BinaryOK()
	if !ok || subtype != bson.TypeBinaryUUID || len(data) != len(i) {
		return fmt.Errorf("%s is no id", v)
	}
	*i = id(data)
	return nil
}

// number is any of BSON's whole numbers. A lock has no 0 there: it leaves the field out.
type number int64

func (n *number) UnmarshalBSONValue(kind byte, value []byte) error {
	v, err := whole(bson.RawValue{Type: bson.Type(kind), Value: value})
	if *n = number(v); err == nil && v == 0 {
		err = fmt.Errorf("a lock has a 0")
	}
	return err
}

// whole is a whole number, or 0 for null.
func whole(v bson.RawValue) (int64, error) {
	if d, ok := v.Decimal128OK(); ok {
		n, exp, err := d.BigInt()
		if err != nil || exp != 0 {
			return 0, fmt.Errorf("%s is no whole number", v)
		}
		return n.Int64(), nil
	}
	n, ok := v.AsInt64OK()
	if !ok && v.Type != bson.TypeNull && !v.IsZero() {
		return 0, fmt.Errorf("%s is no number", v)
	}
	return n, nil
}

// parse reads a document strictly, and the type of its lock.fence: anything that
// the model has no form for is an error. It compares a foreign lock by its bytes.
func (p *place) parse(raw bson.Raw) (doc *model.Document, fence bson.Type, err error) {
	var fields struct {
		ID    string         `bson:"_id"`
		Log   []model.Update `bson:"log"`
		Lock  bson.RawValue  `bson:"lock"`
		Other bson.M         `bson:",inline"`
	}
	if err := bson.Unmarshal(raw, &fields); err != nil || len(fields.Other) > 0 {
		return nil, 0, fmt.Errorf("unknown fields %v: %w", fields.Other, err)
	}
	doc = &model.Document{Log: fields.Log}
	switch v := fields.Lock; {
	case v.IsZero():
	case v.Type == bson.TypeNull:
		doc.Field = model.Null
	case v.Equal(p.foreign):
		doc.Field = model.Foreign
	default:
		doc.Field = model.Ours
		fence, err = p.parseLock(v, &doc.Lock)
	}
	return doc, fence, err
}

// parseLock also returns the type of lock.fence. An outside writer's null is an empty array.
func (p *place) parseLock(v bson.RawValue, lock *model.Lock) (bson.Type, error) {
	var fields struct {
		Fence  bson.RawValue      `bson:"fence"`
		Tags   map[string][]entry `bson:"tags"`
		Done   []id               `bson:"done"`
		Broken number             `bson:"broken"`
		Other  bson.M             `bson:",inline"`
	}
	err := v.Unmarshal(&fields)
	if err != nil || len(fields.Other) > 0 {
		return 0, fmt.Errorf("lock %s: unknown fields %v: %w", v, fields.Other, err)
	}
	for _, tag := range slices.Sorted(maps.Keys(fields.Tags)) {
		b := model.Bucket{Tag: model.Tag(tag)}
		for _, e := range fields.Tags[tag] {
			if len(e.Other) > 0 {
				return 0, fmt.Errorf("entry %v", e)
			}
			b.Entries = append(b.Entries, p.entry(e))
		}
		lock.Tags = append(lock.Tags, b)
	}
	for _, i := range fields.Done {
		lock.Done = append(lock.Done, p.known(uuid.UUID(i)))
	}
	lock.Broken = int64(fields.Broken)
	lock.Fence, err = whole(fields.Fence)
	return fields.Fence.Type, err
}

// known is the model's name of a stored id. A release may have made one.
func (p *place) known(i uuid.UUID) model.ID {
	n, known := p.ids[i]
	if !known && p.leaving == 0 {
		p.t.Fatalf("unknown id %s", i)
	}
	if !known {
		n = -p.leaving
		p.ids[i], p.uuids[n] = n, i
	}
	return n
}

// entry is the stored entry in the model's form.
func (p *place) entry(e entry) model.Entry {
	return model.Entry{
		ID: p.known(uuid.UUID(e.ID)), Owner: e.Owner, Seq: int64(e.Seq), Fence: int64(e.Fence), Since: int64(e.Since), Expires: int64(e.Expires),
		N: int(e.N), Key: p.known(uuid.UUID(e.Key)), Detached: e.Detached, Until: int64(e.Until),
	}
}

// stores is the model's entry in the stored form.
func (p *place) stores(e model.Entry) entry {
	return entry{
		ID: id(p.uuids[e.ID]), Owner: e.Owner, Seq: number(e.Seq), Fence: number(e.Fence), Since: bson.DateTime(e.Since), Expires: bson.DateTime(e.Expires),
		N: number(e.N), Key: id(p.uuids[e.Key]), Detached: e.Detached, Until: bson.DateTime(e.Until),
	}
}

// shown is the engine's entry in the model's form.
func (p *place) shown(e engine.Entry) model.Entry {
	return model.Entry{
		ID: p.known(e.ID), Owner: e.Owner, Seq: e.Seq, Fence: e.Fence, Since: millis(e.Since), Expires: millis(e.Expires),
		N: int(e.Writes), Key: p.known(e.Key), Detached: e.Detached, Until: millis(e.Until),
	}
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// The properties in the tally. Each counts once per run, step, outcome, image or
// stored document.
const (
	EngineRuns     = "engine agrees with the model"
	EngineSteps    = "engine's steps"
	EngineOutcomes = "engine's outcome is the model's"
	EngineImages   = "engine's image is the model's"
	EngineStored   = "engine's document is the model's"
)

// Outcomes are those of the protocol's table of commands. A run of any size
// sees them all.
func Outcomes() []string {
	return []string{
		"acquire: granted", "acquire: waiting", "acquire: conflict", "acquire: repeat", "acquire: foreign", "acquire: not found", "claim: granted", "claim: not found",
		"batch: granted", "batch: not found",
		"confirm: granted", "confirm: waiting", "confirm: repeat", "confirm: lost", "confirm: foreign",
		"renew: renewed", "renew: lost",
		"release: released", "release: lost",
		"write: applied", "write: not applied",
		"write-and-release: applied", "write-and-release: not applied",
		"detach: detached", "detach: lost", "resume: granted", "resume: lost", "resume: not found", "touch: renewed", "touch: lost", "touch: not found",
		"take-over: granted", "take-over: conflict", "take-over: repeat", "convert: granted", "convert: conflict", "convert: lost", "break: released", "break: lost",
		"handoff: granted", "handoff: lost", "handoff: not applied", // conflict and waiting are rarer
		"compare-and-set: granted", "compare-and-set: not applied",
	}
}

// Engine runs the machine: a number of runs, each with its own document, of a number of steps on average. It fails tb at the first
// disagreement, with the shrunk sequence and the seed. It sets rapid's flags, which belong to the process.
func Engine(tb rapid.TB, db *mongo.Database, runs, steps int, count *tally.Tally) {
	tb.Helper()
	for name, value := range map[string]string{"rapid.checks": strconv.Itoa(runs), "rapid.steps": strconv.Itoa(steps), "rapid.nofailfile": "true"} {
		if err := flag.Set(name, value); err != nil {
			panic(err)
		}
	}
	done, passed := 0, false
	defer func() { // rapid leaves by runtime.Goexit
		if !passed {
			count.Violated(EngineRuns, "run %d does not; the log has the shrunk sequence and the seed", done+1)
		}
		count.Checked(EngineRuns, done)
	}()
	rapid.Check(tb, func(t *rapid.T) {
		run(t, db.Collection("engine"), count)
		done++
	})
	passed = true
	if done < runs { // rapid stops earlier when time runs out
		tb.Errorf("the time allowed %d runs of %d", done, runs)
	}
}
