package machine

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/doclock/doclock/proptest/model"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"pgregory.net/rapid"
)

// foreigners are lock fields that are not locks of ours.
var foreigners = []any{
	"mine", 7, true, 1.5, bson.A{}, bson.A{bson.M{"fence": int64(1)}}, time.UnixMilli(epoch),
	bson.M{"tags": "read"}, bson.M{"tags": bson.A{}}, bson.M{"tags": 1},
	bson.M{"fence": "1"}, bson.M{"fence": bson.A{}, "tags": bson.M{}}, bson.M{"fence": time.UnixMilli(epoch)},
	bson.M{"fence": math.Inf(1)}, bson.M{"fence": math.Inf(-1), "tags": bson.M{}}, bson.M{"fence": math.NaN()},
	bson.M{"fence": 1e300}, bson.M{"fence": 0x1p53}, bson.M{"fence": int64(math.MaxInt64)}, bson.M{"fence": int64(1 << 53)},
	bson.M{"fence": int32(-1)}, bson.M{"fence": -0.5}, bson.M{"fence": bson.NewDecimal128(0x7800000000000000, 0)}, // infinite
	bson.M{"v": 3}, bson.M{"v": int64(3), "fence": int64(1), "tags": bson.M{}}, bson.M{"v": "1", "fence": int64(5)},
	bson.M{"tags": bson.M{"read": "me"}}, bson.M{"tags": bson.M{"write": bson.M{"id": 1}}},
	bson.M{"tags": bson.M{"slot": bson.A{1}}}, bson.M{"tags": bson.M{ghost: bson.A{bson.M{}, nil}}},
}

func (p *place) begin() {
	shape := rapid.SampledFrom([]string{"insert", "lock", "insert", "lock", "null", "lock", "foreign", "none"}).Draw(p.t, "shape")
	p.t.Logf("the document begins with %s", shape)
	if shape == "none" {
		return
	}
	p.store(&model.Document{}, nil)
	p.write(p.t, shape)
}

// outsideWrite changes the document without a command of the protocol.
func (p *place) outsideWrite(t *rapid.T) {
	if p.alone {
		t.Skip("no outside writer comes")
	}
	deed := rapid.SampledFrom([]string{"erase", "save old", "put back", "lock", "delete", "insert", "null", "foreign"}).Draw(t, "outside writer")
	t.Logf("an outside writer: %s", deed)
	if p.doc != nil {
		p.write(t, deed)
	} else if deed == "insert" {
		p.store(&model.Document{}, nil)
	}
}

func (p *place) write(t *rapid.T, deed string) {
	switch deed {
	case "save old":
		if p.doc.Field != model.Foreign {
			p.old = p.doc
		}
	case "put back":
		if p.old != nil {
			p.store(p.doc.With(p.old.Field, p.old.Lock), p.encode(t, p.old.Lock))
		}
	case "delete":
		if _, err := p.coll.DeleteOne(t.Context(), p.filter()); err != nil {
			t.Fatalf("delete: %v", err)
		}
		p.settle(nil)
	case "erase":
		p.store(p.doc.With(model.Absent, model.Lock{}), nil)
	case "null":
		p.store(p.doc.With(model.Null, model.Lock{}), nil)
	case "foreign":
		p.store(p.doc.With(model.Foreign, model.Lock{}), rapid.SampledFrom(foreigners).Draw(t, "foreign"))
	case "lock":
		lock := p.drawLock(t)
		p.store(p.doc.With(model.Ours, lock), p.encode(t, lock))
	}
}

// store writes the document by hand. lock is its field in BSON if it is ours or
// foreign.
func (p *place) store(doc *model.Document, lock any) {
	whole := bson.M{"_id": p.id}
	if len(doc.Log) > 0 {
		whole["log"] = doc.Log
	}
	if doc.Field != model.Absent {
		whole["lock"] = lock
	}
	if doc.Field == model.Null {
		whole["lock"] = nil
	}
	p.foreign = bson.RawValue{}
	if doc.Field == model.Foreign {
		kind, data, err := bson.MarshalValue(lock)
		if err != nil {
			p.t.Fatalf("marshal %v: %v", lock, err)
		}
		p.foreign = bson.RawValue{Type: kind, Value: data}
		whole["lock"] = p.foreign
	}
	if _, err := p.coll.ReplaceOne(p.t.Context(), p.filter(), whole, options.Replace().SetUpsert(true)); err != nil {
		p.t.Fatalf("write the document: %v", err)
	}
	p.doc = doc
	if got, _ := p.load(); !model.Same(doc, got) {
		p.t.Fatalf("the machine itself wrote %v, and found %v", doc, got)
	}
}

// drawLock draws a lock as others may leave it: with expired entries, empty
// arrays, unknown tags, and a fence ahead of the clock.
func (p *place) drawLock(t *rapid.T) model.Lock {
	fence := rapid.SampledFrom([]int64{0, 5, max(p.now-1, 0), p.now, p.now + 10, 1<<31 - 1, 1 << 52, 1<<53 - 2}).Draw(t, "fence")
	lock := model.Lock{Fence: min(fence, 1<<53-1)} // what is greater is a foreign lock, and drawn above
	for _, tag := range drawTags(t, 0, "a", ghost, "read", "write") {
		b := model.Bucket{Tag: model.Tag(tag)}
		for range rapid.IntRange(0, 3).Draw(t, "entries of "+tag) {
			if len(p.ids) > 60 {
				break
			}
			e := model.Entry{
				ID: p.newID(), Owner: "an outside writer", Since: p.now,
				Seq:     rapid.Int64Range(1, 9).Draw(t, "seq"),
				Expires: p.now + rapid.SampledFrom([]int64{5000, 1, 0, -1, -5000, -p.now, 60_000}).Draw(t, "expires"),
			}
			if rapid.Bool().Draw(t, "held") {
				e.Fence = rapid.Int64Range(1, 9).Draw(t, "fence")
				e.N = rapid.IntRange(0, 2).Draw(t, "n")
			}
			b.Entries = append(b.Entries, e)
		}
		lock.Tags = append(lock.Tags, b)
	}
	lock.Broken = rapid.SampledFrom([]int64{0, 0, 4, 1 << 52}).Draw(t, "broken")
	for range rapid.SampledFrom([]int{0, 0, 1, 7, 8}).Draw(t, "done") {
		if len(p.ids) <= 60 {
			lock.Done = append(lock.Done, p.newID())
		}
	}
	return lock
}

// encode writes a lock in one of its equivalent forms.
func (p *place) encode(t *rapid.T, lock model.Lock) any {
	out := bson.M{}
	switch kind := rapid.IntRange(0, 3).Draw(t, "kind of fence"); {
	case lock.Fence == 0 && kind == 0:
	case lock.Fence == 0 && kind == 1:
		out["fence"] = nil
	case kind == 2:
		out["fence"] = float64(lock.Fence)
	case kind == 3 && lock.Fence%2 == 0: // a decimal's low half is its digits
		out["fence"] = bson.NewDecimal128(0x3040000000000000, uint64(lock.Fence))
	case kind == 3 && lock.Fence < 1<<31:
		out["fence"] = int32(lock.Fence)
	default:
		out["fence"] = lock.Fence
	}
	tags := map[string][]entry{}
	for _, b := range lock.Tags {
		entries := []entry{}
		for _, e := range b.Entries {
			entries = append(entries, p.stores(e))
		}
		if len(entries) == 0 && rapid.Bool().Draw(t, "null array") {
			entries = nil
		}
		tags[string(b.Tag)] = entries
	}
	switch kind := rapid.IntRange(0, 2).Draw(t, "kind of tags"); {
	case len(tags) == 0 && kind == 1:
	case len(tags) == 0 && kind == 2:
		out["tags"] = nil
	default:
		out["tags"] = tags
	}
	if lock.Done != nil {
		done := []id{}
		for _, i := range lock.Done {
			done = append(done, id(p.uuids[i]))
		}
		out["done"] = done
	}
	if lock.Broken != 0 {
		out["broken"] = lock.Broken
	}
	return out
}

// tagPool has the tags of generated rules. Some are the presets' too, because
// programs with different rules also use the same document.
var tagPool = []string{"read", "write", "slot", "a"}

const ghost = "ghost"

// presets are the library's, and one in which an entry often overtakes a
// waiting entry: it ignores that entry, which respects it.
var presets = []relations.Rules{
	overtaken,
	overtaken,
	relations.Exclusive(),
	relations.ReadPreferring(),
	relations.WritePreferring(),
	relations.Fair(),
	relations.Fair(),
	relations.Semaphore(1),
	relations.Semaphore(2),
	relations.Semaphore(3),
	relations.MultiGranularity(),
}

var overtaken = relations.Rules{
	"a":     {"read": {Kind: relations.Assertive}, "write": {Kind: relations.Cooperative}},
	"read":  {},
	"write": {},
}

// drawRules draws a preset, or any rules of 1 to 4 tags.
func drawRules(t *rapid.T) relations.Rules {
	if rapid.IntRange(0, 1).Draw(t, "a preset") == 0 {
		return pick(t, "preset", presets)
	}
	tags := drawTags(t, 1, tagPool...)
	rules := relations.Rules{}
	for _, from := range tags {
		rules[from] = map[string]relations.Relation{}
		for _, to := range tags {
			cells := []relations.Relation{
				{}, {}, {},
				{Kind: relations.Cooperative}, {Kind: relations.Cooperative, Allow: 1}, {Kind: relations.Cooperative, Allow: 2},
				{Kind: relations.Assertive}, {Kind: relations.Assertive}, {Kind: relations.Assertive, Allow: 1}, {Kind: relations.Assertive, Allow: 2},
			}
			if r := rapid.SampledFrom(cells).Draw(t, from+"→"+to); r.Kind != relations.None {
				rules[from][to] = r
			}
		}
	}
	return rules
}

// drawOther draws the rules of another program on the same document: the same,
// any other, or the same with one more tag that ignores all others. An entry of
// that tag is not blocked by a waiting entry of the first program, which
// doesn't know the tag.
func drawOther(t *rapid.T, rules relations.Rules) relations.Rules {
	switch rapid.IntRange(0, 3).Draw(t, "other rules") {
	case 0:
		return rules
	case 1:
		return drawRules(t)
	default:
		wider := maps.Clone(rules)
		wider["late"] = map[string]relations.Relation{}
		return wider
	}
}

// drawTags draws some of the tags, in their order.
func drawTags(t *rapid.T, least int, of ...string) []string {
	tags := rapid.SliceOfNDistinct(rapid.SampledFrom(of), least, len(of), rapid.ID).Draw(t, "tags")
	slices.Sort(tags)
	return tags
}

// modelRules are the model's form of the library's rules.
func modelRules(of relations.Rules) model.Rules {
	rules := model.Rules{}
	kinds := map[relations.Kind]model.Kind{relations.None: model.None, relations.Cooperative: model.Cooperative, relations.Assertive: model.Assertive}
	for from, row := range of {
		rules[model.Tag(from)] = map[model.Tag]model.Relation{}
		for to, r := range row {
			rules[model.Tag(from)][model.Tag(to)] = model.Relation{Kind: kinds[r.Kind], Allow: r.Allow}
		}
	}
	return rules
}

func drawTag(t *rapid.T, rules model.Rules) model.Tag {
	return rapid.SampledFrom(rules.Tags()).Draw(t, "tag")
}
