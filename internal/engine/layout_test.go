package engine

import (
	"bytes"
	"context"
	"errors"
	"math"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func lockOf(t *testing.T, doc any) (Lock, error) {
	t.Helper()
	return parseLock(rawOf(bson.M{"lock": doc}).Lookup("lock"))
}

func TestParseLock(t *testing.T) {
	t.Parallel()
	got, err := lockOf(t, stored{fence: 7, tags: rows{
		"read":  {{id: ann, seq: 3, fence: 4, since: second, expires: held, n: 2}, {id: bob, seq: 6, expires: waits}},
		"write": {},
	}, done: []uuid.UUID{cid, dan}}.document())
	if err != nil {
		t.Fatal(err)
	}
	want := Lock{Fence: 7, Done: []uuid.UUID{cid, dan}, Entries: []Entry{
		{Tag: "read", ID: ann, Owner: "test", Seq: 3, Fence: 4, Since: epoch.Add(second), Expires: epoch.Add(held), Writes: 2},
		{Tag: "read", ID: bob, Owner: "test", Seq: 6, Since: epoch, Expires: epoch.Add(waits)},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a, b := want.Entries[0], want.Entries[1]; !a.Held() || b.Held() {
		t.Error("held and waiting are mixed up")
	}
	if !got.FinishedBy(dan) || got.FinishedBy(ann) {
		t.Errorf("done is %v", got.Done)
	}
	if _, there := got.Find("write", ann); there {
		t.Error("ann was found under another tag")
	}
	if e, there := got.Find("read", bob); !there || e.ID != bob {
		t.Errorf("bob was not found: %+v", e)
	}
}

// A damaged entry is shown as far as it can be read. A restore may have made
// ints and doubles of longs.
func TestParseDamagedEntry(t *testing.T) {
	t.Parallel()
	got, err := lockOf(t, bson.M{
		"fence": 7.0,
		"tags": bson.M{"read": bson.A{
			bson.D{{Key: "id", Value: bson.Binary{Subtype: 0, Data: ann[:]}}, {Key: "owner", Value: 5}, {Key: "seq", Value: int32(3)}, {Key: "fence", Value: 4.0}},
			bson.D{{Key: "id", Value: bson.Binary{Subtype: 4, Data: ann[:7]}}, {Key: "seq", Value: "3"}, {Key: "since", Value: 1}, {Key: "expires", Value: "x"}},
			bson.D{{Key: "id", Value: "ann"}, {Key: "n", Value: nil}, {Key: "later", Value: 1}},
			bson.D{{Key: markKey, Value: bson.M{idKey: binaryID(ann), slotsKey: int64(1) << 40}}},
		}},
		"done": bson.A{binaryID(ann), "x", nil},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := Lock{Fence: 7, Done: []uuid.UUID{ann, uuid.Nil, uuid.Nil}, Entries: []Entry{
		{Tag: "read", Seq: 3, Fence: 4}, {Tag: "read"}, {Tag: "read"}, {Tag: "read", Mark: Mark{ID: ann, Slots: mostSlots}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// foreign are values of the field that are not locks of ours.
var foreign = map[string]any{
	"string":                           "locked by the gardener",
	"empty string":                     "",
	"number":                           int32(3),
	"zero":                             int32(0),
	"boolean":                          false,
	"date":                             bson.NewDateTimeFromTime(epoch),
	"empty array":                      bson.A{},
	"array":                            bson.A{1, "two"},
	"array of locks":                   bson.A{bson.M{"fence": int64(1), "tags": bson.M{}}},
	"undefined":                        bson.Undefined{},
	"fence string":                     bson.M{"fence": "7"},
	"fence infinite":                   bson.M{"fence": math.Inf(1)},
	"fence not a number":               bson.M{"fence": math.NaN()},
	"fence the last long":              bson.M{"fence": int64(math.MaxInt64)},
	"fence 2^53":                       bson.M{"fence": int64(1) << 53},
	"fence 2^53 as a double":           bson.M{"fence": 0x1p53},
	"fence negative":                   bson.M{"fence": int64(-5)},
	"fence just below zero":            bson.M{"fence": -0.5},
	"fence decimal infinite":           bson.M{"fence": decimal("Infinity")},
	"fence decimal not a number":       bson.M{"fence": decimal("NaN")},
	"fence decimal 2^53":               bson.M{"fence": decimal("9007199254740992")},
	"fence decimal negative":           bson.M{"fence": decimal("-1E-6000")},
	"fence max key":                    bson.M{"fence": bson.MaxKey{}},
	"fence date":                       bson.M{"fence": bson.NewDateTimeFromTime(epoch)},
	"fence array":                      bson.M{"fence": bson.A{int64(7)}},
	"version 3":                        bson.M{"v": int32(3)},
	"version 3 of a lock like ours":    bson.M{"v": int64(3), "fence": int64(5), "tags": bson.M{"read": bson.A{}}},
	"version 3 of another form":        bson.M{"fence": "7", "tags": 7, "v": 3.0},
	"version above 2":                  bson.M{"v": 2.5},
	"version decimal":                  bson.M{"v": decimal("3")},
	"version string":                   bson.M{"v": "1"},
	"version boolean":                  bson.M{"v": false},
	"version max key":                  bson.M{"v": bson.MaxKey{}},
	"tags string":                      bson.M{"tags": "read"},
	"tags array":                       bson.M{"tags": bson.A{"read"}},
	"tags number":                      bson.M{"fence": int64(5), "tags": 7},
	"tag number":                       bson.M{"tags": bson.M{"read": 3}},
	"tag string":                       bson.M{"tags": bson.M{"write": "x"}},
	"tag document":                     bson.M{"tags": bson.M{"read": bson.M{"id": binaryID(ann)}}},
	"tag document of arrays":           bson.M{"tags": bson.M{"write": bson.M{"id": bson.A{binaryID(ann)}}}},
	"tag undefined":                    bson.M{"tags": bson.M{"read": bson.Undefined{}}},
	"tag of strings":                   bson.M{"tags": bson.M{"read": bson.A{"s"}}},
	"tag of nulls":                     bson.M{"tags": bson.M{"read": bson.A{nil}}},
	"tag of arrays":                    bson.M{"tags": bson.M{"write": bson.A{bson.A{bson.M{"id": binaryID(ann)}}}}},
	"tag of an entry and a string":     bson.M{"tags": bson.M{"read": bson.A{bson.M{"id": binaryID(ann), "fence": int64(1)}, "s"}}},
	"one tag good, another not":        bson.M{"fence": int64(1), "tags": bson.M{"read": bson.A{}, "other": 3}},
	"one tag good, another of strings": bson.M{"tags": bson.D{{Key: "read", Value: bson.A{bson.M{"id": binaryID(ann)}}}, {Key: "z", Value: bson.A{"s"}}}},
}

func decimal(s string) bson.Decimal128 {
	d, err := bson.ParseDecimal128(s)
	if err != nil {
		panic(err)
	}
	return d
}

// No command changes a foreign field, not by one byte. Each reports it, and a claim passes over it.
func TestForeignFieldIsLeftUntouched(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	p := w.peer(relations.Fair())
	for name, value := range foreign {
		w.run(name, func(t *testing.T) {
			w.Insert(bson.E{Key: "_id", Value: name}, bson.E{Key: "text", Value: "hello"}, bson.E{Key: DefaultField, Value: value})
			before := w.Stored()
			pin := Pin{{Key: "_id", Value: name}}
			for _, tag := range []string{"read", "write"} {
				r := Request{Tag: tag, ID: ann, Document: tag == "write"}
				isForeign(t, "acquire", p, func(ctx context.Context) (Answer, error) {
					return p.Engine.Acquire(ctx, p.filter(), r)
				})
				isForeign(t, "confirm", p, func(ctx context.Context) (Answer, error) {
					return p.Confirm(ctx, p.filter(), pin, r)
				})
				if got, err := p.Claim(t.Context(), p.filter(), r, nil); err != nil || got.Outcome != NotFound {
					t.Errorf("claim: %v, %v", got.Outcome, err)
				}
			}
			isForeign(t, "try", p, func(ctx context.Context) (Answer, error) {
				return p.Engine.Acquire(ctx, p.filter(), Request{Tag: "read", ID: ann, Try: true})
			})
			isForeign(t, "take-over", p, func(ctx context.Context) (Answer, error) {
				return p.Engine.Acquire(ctx, p.filter(), Request{Tag: "read", ID: ann, TakeOver: []Entry{{ID: bob, Fence: 1}}})
			})
			g := Grant{Pin: pin, Entry: Entry{Tag: "write", ID: bob, Fence: 1, Until: epoch.Add(held)}}
			p.renew(g, Lost)
			p.release(g, Lost)
			p.write(g, bson.M{"$set": bson.M{"text": "bye"}}, 1, Lost)
			p.finish(g, bson.M{"$set": bson.M{"text": "bye"}}, Lost)
			isForeign(t, "read", p, func(ctx context.Context) (Answer, error) {
				img, err := p.Read(ctx, pin)
				return Answer{Outcome: Lost, Image: img}, err
			})
			if after := w.Stored(); !bytes.Equal(before, after) {
				t.Errorf("%v\nbecame %v", before, after)
			}
		})
	}
}

func isForeign(t testing.TB, name string, p *peer, send func(context.Context) (Answer, error)) {
	t.Helper()
	p.once(name, func() {
		got, err := send(t.Context())
		if err == nil {
			t.Fatalf("%s: %v, image %+v, no error", name, got.Outcome, got.Image)
		}
		if f := AsFailure(err); f.Cause != CauseForeign || !f.Nothing || !errors.Is(err, errForeign) && !errors.Is(err, errNewer) {
			t.Errorf("%s: %+v: %v", name, f, err)
		}
		if got.Outcome == Granted || got.Outcome == Waiting {
			t.Errorf("%s: %v", name, got.Outcome)
		}
	})
}

// ours are values of the field that are locks, but that no command left in this
// form: absent, or changed by a shell or a restore.
var ours = map[string]struct {
	value any
	next  int64 // the fence given out at the epoch
	keeps bson.M
}{
	"tags null":                   {bson.M{"fence": int64(5), "tags": nil}, n0, nil},
	"tags empty":                  {bson.M{"fence": int64(5), "tags": bson.M{}}, n0, nil},
	"tag null":                    {bson.M{"tags": bson.M{"read": nil, "write": nil}}, n0, nil},
	"tag empty":                   {bson.M{"tags": bson.M{"read": bson.A{}, "write": bson.A{}, "other": bson.A{}}}, n0, nil},
	"fence null":                  {bson.M{"fence": nil}, n0, nil},
	"fence int":                   {bson.M{"fence": int32(5)}, n0, nil},
	"fence double":                {bson.M{"fence": float64(n0 + 5)}, n0 + 6, nil},
	"fence with a fraction":       {bson.M{"fence": float64(n0) + 3.5}, n0 + 4, nil},
	"fence negative zero":         {bson.M{"fence": math.Copysign(0, -1)}, n0, nil},
	"fence undefined":             {bson.M{"fence": bson.Undefined{}}, n0, nil},
	"fence decimal":               {bson.M{"fence": decimal("7")}, n0, nil},
	"fence decimal, ahead":        {bson.M{"fence": decimal("1906545600050.75")}, n0 + 51, nil},
	"fence decimal, very small":   {bson.M{"fence": decimal("1E-6000")}, n0, nil},
	"fence before the last":       {bson.M{"fence": int64(1)<<53 - 2}, 1<<53 - 1, nil},
	"version 1":                   {bson.M{"v": int32(1)}, n0, bson.M{"v": int32(1)}},
	"version 1 as a double":       {bson.M{"v": 1.0, "fence": int64(5)}, n0, bson.M{"v": 1.0}},
	"version null":                {bson.M{"v": nil}, n0, bson.M{"v": nil}},
	"version negative":            {bson.M{"v": int64(-1)}, n0, bson.M{"v": int64(-1)}},
	"version infinitely negative": {bson.M{"v": math.Inf(-1)}, n0, bson.M{"v": math.Inf(-1)}},
	"version min key":             {bson.M{"v": bson.MinKey{}}, n0, bson.M{"v": bson.MinKey{}}},
	"entries without an end":      {bson.M{"tags": bson.M{"write": bson.A{bson.M{"id": binaryID(bob), "fence": int64(1)}}}}, n0, nil},
	"entries whose end is null":   {bson.M{"tags": bson.M{"write": bson.A{bson.M{"id": binaryID(bob), "expires": nil}}}}, n0, nil},
	"entries whose end is a text": {bson.M{"tags": bson.M{"write": bson.A{bson.M{"id": binaryID(bob), "expires": "soon"}}}}, n0, nil},
	"entries that are empty":      {bson.M{"tags": bson.M{"write": bson.A{bson.M{}}, "other": bson.A{bson.M{}, bson.M{}}}}, n0, nil},
}

func TestFieldThatIsALock(t *testing.T) {
	t.Parallel()
	w := emptyWorld(t)
	p := w.peer(relations.Fair())
	for name, test := range ours {
		w.run(name, func(t *testing.T) {
			w.Insert(bson.E{Key: "_id", Value: name}, bson.E{Key: DefaultField, Value: test.value}, bson.E{Key: "text", Value: "hello"})
			confirmed := p.ask(Grant{Pin: Pin{{Key: "_id", Value: name}}}, Request{Tag: "write", ID: ann}, Lost)
			if len(confirmed.Lock.Done) > 0 {
				t.Error("ids out of nowhere")
			}
			g := p.acquire(ann, "write", Granted)
			want := stored{fence: test.next, tags: rows{"write": {{id: ann, seq: test.next, fence: test.next, expires: held}}}}.document()
			for key, value := range test.keeps {
				want[key] = value
			}
			w.fieldIs(DefaultField, want)
			p.release(g, Released)
		})
	}
}

// An outside writer gave this entry an expiry of a type that sorts after all
// dates. It excludes others for ever. No list shows it, and nothing crashes.
func TestEntryThatNeverEnds(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]any{"timestamp": bson.Timestamp{T: 1}, "max key": bson.MaxKey{}} {
		forked(t, name, func(w *world) {
			w.Change(bson.M{"$set": bson.M{"lock.tags.write": bson.A{bson.M{"id": binaryID(bob), "fence": int64(1), "expires": end}}}})
			p := w.peer(relations.Exclusive())
			w.at(1000 * time.Hour)
			img := p.arrive(Request{Tag: "write", ID: ann}, Conflict)
			if entries, _ := p.InTheWay(img, "write", nil); len(entries) != 0 {
				w.Errorf("in the way: %+v", entries)
			}
		})
	}
}

// Callers add to the time until a lock is free, also if somebody has written the last
// date that there is. An expired entry whose transactions are to be settled is there for a second.
func TestInTheWayOfTheLastDate(t *testing.T) {
	img := &Image{Now: epoch, Lock: Lock{Entries: []Entry{{Tag: "write", ID: ann, Fence: 1, Expires: time.UnixMilli(math.MaxInt64)}}}}
	if entries, free := InTheWay(relations.Exclusive(), img, "write", nil); len(entries) != 1 || free < time.Hour || free+free < free {
		t.Errorf("%v in the way, free in %v", entries, free)
	}
	img.Lock.Entries[0].Expires, img.Lock.Entries[0].Mark.ID = epoch.Add(-time.Hour), bob
	if entries, free := InTheWay(relations.Exclusive(), img, "write", nil); len(entries) != 1 || free != time.Second {
		t.Errorf("%v in the way, free in %v", entries, free)
	}
}

// What names an entry by id and fencing token, or key, goes on under a lock of a newer
// version. What judges the lock leaves it: TestForeignFieldIsLeftUntouched.
func TestLockOfANewerVersion(t *testing.T) {
	t.Parallel()
	set := bson.M{"$set": bson.M{"text": "bye"}}
	for name, use := range map[string]func(p *peer, g Grant){
		"renew":             func(p *peer, g Grant) { p.renew(g, Renewed) },
		"release":           func(p *peer, g Grant) { p.release(g, Released) },
		"write":             func(p *peer, g Grant) { p.write(g, set, 1, Applied) },
		"write and release": func(p *peer, g Grant) { p.finish(g, set, Applied) },
		"handoff": func(p *peer, g Grant) { // leaves, and lets nobody in
			a, err := p.Handoff(p.Context(), g, Successor{Request: Request{Tag: "read", ID: bob}})
			if a.Image == nil || !errors.Is(err, errNewer) {
				p.Errorf("%+v, %v", a, err)
			}
			p.fieldIs(DefaultField, bson.M{"v": int32(3), "fence": g.Fence, "tags": bson.M{"write": bson.A{}}})
		},
		"resume": func(p *peer, g Grant) {
			p.Change(bson.M{"$set": bson.M{"lock.tags.write.0.key": binaryID(key)}})
			p.leaves("resume", func(ctx context.Context) (Answer, error) {
				return p.Resume(ctx, p.filter(), token(g), Request{Tag: g.Tag, ID: bob})
			})
		},
		"convert": func(p *peer, g Grant) {
			p.leaves("convert", func(ctx context.Context) (Answer, error) {
				return p.Convert(ctx, g, 1, Request{Tag: "read", ID: bob})
			})
		},
		"find": func(p *peer, _ Grant) {
			p.leaves("find", func(ctx context.Context) (Answer, error) {
				img, err := p.Find(ctx, p.filter())
				return Answer{Outcome: Lost, Image: img}, err
			})
		},
	} {
		forked(t, name, func(w *world) {
			p := w.peer(relations.Fair())
			g := p.acquire(ann, "write", Granted)
			w.Change(bson.M{"$set": bson.M{"lock.v": 3}})
			use(p, g)
		})
	}
}

// leaves sends a command that leaves a foreign lock as it is, and says so.
func (p *peer) leaves(name string, send func(context.Context) (Answer, error)) {
	p.Helper()
	before := p.Stored()
	isForeign(p.TB, name, p, send)
	if after := p.Stored(); !bytes.Equal(before, after) {
		p.Errorf("%v\nbecame %v", before, after)
	}
}
