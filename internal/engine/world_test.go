package engine

import (
	"bytes"
	"context"
	"flag"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// update rewrites testdata/commands with the commands that are sent.
var update = flag.Bool("update", false, "rewrite the commands in testdata from what is really sent")

func TestMain(m *testing.M) { mongotest.Main(m) }

// epoch is the time at which every world begins, and n0 the first fence given
// out then: fences are never behind the clock.
var (
	epoch = fixture.Epoch
	n0    = epoch.UnixMilli()
)

// The configuration of a world's peers, and the times that the server uses: TTL
// or WaitTTL, and the tolerance.
const (
	ttl     = 10 * time.Second
	waitTTL = 4 * time.Second
	extra   = 500 * time.Millisecond
	held    = ttl + extra
	waits   = waitTTL + extra
)

// named is an id that shows a name in a failed comparison.
func named(name string) uuid.UUID {
	id := uuid.UUID([]byte("................"))
	copy(id[:], name)
	return id
}

var ann, bob, cid, dan, eve = named("ann"), named("bob"), named("cid"), named("dan"), named("eve")

// world is one document on the real server, a clock that the test sets by hand,
// and a record of the commands that the engines send.
type world struct {
	*fixture.Document
	lab   *mongo.Collection // where the engines work; every command is recorded
	key   bson.D            // the shard key's equalities, in every filter
	clock fixture.Clock
	sent  fixture.Commands
}

// newWorld inserts the test's document; its _id is 1 if the fields have none.
func newWorld(t testing.TB, fields ...bson.E) *world {
	t.Helper()
	w := emptyWorld(t)
	w.Insert(fields...)
	return w
}

// emptyWorld has no document yet.
func emptyWorld(t testing.TB, opts ...options.Lister[options.CollectionOptions]) *world {
	t.Helper()
	w := &world{Document: fixture.NoDocument(t)}
	w.lab = w.Through(options.Client().SetMonitor(w.sent.Monitor()), opts...)
	return w
}

// shardedWorld is on a sharded cluster of the test's own. The fields of key, which the document needn't have, are the
// shard key.
func shardedWorld(t testing.TB, key bson.D, fields ...bson.E) *world {
	t.Helper()
	mongotest.Own(t, locktest.Sharded())
	w := newWorld(t, fields...)
	ascending := bson.D{}
	for _, e := range key {
		ascending = append(ascending, bson.E{Key: e.Key, Value: 1})
	}
	w.Shard(ascending)
	w.key = key
	return w
}

// run is a subtest in the same world.
func (w *world) run(name string, body func(t *testing.T)) {
	outer := w.TB.(*testing.T)
	outer.Run(name, func(t *testing.T) {
		w.TB = t
		defer func() { w.TB = outer }()
		body(t)
	})
}

// at sets the clock, forwards or backwards, to a time after the epoch.
// Durations in expectations count from the epoch too.
func (w *world) at(d time.Duration) { w.clock.Set(epoch.Add(d)) }

// plain is an engine of a collection without settings, for parsing.
var plain = &Engine{encoder: encoder{registry: plainRegistry}, Config: Config{Field: DefaultField}}

// filter names the document as a caller would.
func (w *world) filter() Filter { return w.filterOf(nil) }

// filterOf is a filter that demands more.
func (w *world) filterOf(more bson.M) Filter {
	w.Helper()
	filter := append(bson.D{{Key: "_id", Value: w.ID}}, w.key...)
	for key, v := range more {
		filter = append(filter, bson.E{Key: key, Value: v})
	}
	f, err := plain.ParseFilter(filter)
	if err != nil {
		w.Fatal(err)
	}
	return f
}

// once returns the one command that was sent. Where the server has members, the proof of its negative answer may follow it.
func (w *world) once(name string, command func()) bson.Raw {
	w.Helper()
	before := w.sent.Count()
	command()
	sent := w.sent.All()[before:]
	if len(sent) != 1 && !(len(sent) == 2 && fixture.IsProof(sent[1]) && mongotest.HasMembers(w)) {
		w.Fatalf("%s sent %d commands, not one: %v", name, len(sent), sent)
	}
	return sent[0]
}

// stored is the whole lock field that a test expects.
type stored struct {
	fence int64
	tags  rows
	done  []uuid.UUID
}

type rows map[string][]row

// row is an entry; its times count from the epoch. A zero fence, n, until or key
// is absent, and no owner is the peers' own.
type row struct {
	id             uuid.UUID
	owner          string
	seq, fence     int64
	since, expires time.Duration
	n              int64
	until          time.Duration
	key            uuid.UUID
	detached       bool
}

func (s stored) document() bson.M {
	tags := bson.M{}
	for tag, entries := range s.tags {
		list := bson.A{}
		for _, e := range entries {
			list = append(list, e.document())
		}
		tags[tag] = list
	}
	doc := bson.M{"fence": s.fence, "tags": tags}
	if s.done != nil {
		done := bson.A{}
		for _, id := range s.done {
			done = append(done, binaryID(id))
		}
		doc["done"] = done
	}
	return doc
}

func (r row) document() bson.M {
	doc := bson.M{
		"id":      binaryID(r.id),
		"owner":   "test",
		"seq":     r.seq,
		"since":   bson.NewDateTimeFromTime(epoch.Add(r.since)),
		"expires": bson.NewDateTimeFromTime(epoch.Add(r.expires)),
	}
	if r.owner != "" {
		doc["owner"] = r.owner
	}
	if r.fence != 0 {
		doc["fence"] = r.fence
	}
	if r.n != 0 {
		doc["n"] = r.n
	}
	if r.until != 0 {
		doc["until"] = bson.NewDateTimeFromTime(epoch.Add(r.until))
	}
	if r.key != uuid.Nil {
		doc["key"] = binaryID(r.key)
	}
	if r.detached {
		doc["detached"] = true
	}
	return doc
}

func binaryID(id uuid.UUID) bson.Binary { return bson.Binary{Subtype: 4, Data: id[:]} }

// is checks that the lock field is exactly this one: values, types, and no
// other fields.
func (w *world) is(want stored) {
	w.Helper()
	w.fieldIs(DefaultField, want.document())
}

func (w *world) fieldIs(field string, want any) {
	w.Helper()
	if diff := cmp.Diff(want, w.decoded()[field]); diff != "" {
		w.Fatalf("field %q (-want +stored):\n%s", field, diff)
	}
}

// hasNoLock checks that the document has no lock field.
func (w *world) hasNoLock() {
	w.Helper()
	if lock, there := w.decoded()[DefaultField]; there {
		w.Fatalf("there is a lock field: %v", lock)
	}
}

// decoded is the document, without the order of its fields.
func (w *world) decoded() bson.M {
	w.Helper()
	return decodedM(w, w.Stored())
}

func decodedM(t interface {
	Helper()
	Fatal(...any)
}, raw bson.Raw) bson.M {
	t.Helper()
	decoder := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(raw)))
	decoder.DefaultDocumentM()
	var doc bson.M
	if err := decoder.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}

// peer is an engine in a world. Each of its methods sends one command and
// checks its outcome. It also checks what must hold in every test: one command
// was sent, the user's fields stayed the same, and the image equals the stored
// document.
type peer struct {
	*world
	*Engine
}

// peer makes an engine with the given rules and the world's clock.
func (w *world) peer(rules relations.Rules, changes ...func(*Config)) *peer {
	w.Helper()
	cfg := Config{
		Terms:   Terms{TTL: ttl, Owner: "test"},
		WaitTTL: waitTTL, Tolerance: extra, Field: DefaultField,
		Now: w.clock.Now,
	}
	for _, change := range changes {
		change(&cfg)
	}
	e, err := New(w.lab, rules, cfg)
	if err != nil {
		w.Fatal(err)
	}
	return &peer{w, e}
}

// acquire sends an acquire and checks its outcome.
func (p *peer) acquire(id uuid.UUID, tag string, want Outcome) Grant {
	p.Helper()
	return p.granted(Request{Tag: tag, ID: id}, want)
}

// try sends an acquire that doesn't wait and checks its outcome.
func (p *peer) try(id uuid.UUID, tag string, want Outcome) Grant {
	p.Helper()
	return p.granted(Request{Tag: tag, ID: id, Try: true}, want)
}

// granted sends an acquire, checks its outcome and returns the grant.
func (p *peer) granted(r Request, want Outcome) Grant {
	p.Helper()
	return p.Grant(p.arrive(r, want), r)
}

// arrive sends an acquire, checks its outcome and returns its image.
func (p *peer) arrive(r Request, want Outcome) *Image {
	p.Helper()
	return p.image("acquire", r, want, func(ctx context.Context) (Answer, error) {
		return p.Engine.Acquire(ctx, p.filter(), r)
	})
}

// confirm sends a confirm for a waiting entry and checks its outcome.
func (p *peer) confirm(g Grant, want Outcome) Grant {
	p.Helper()
	return p.Grant(p.ask(g, Request{Tag: g.Tag, ID: g.ID}, want), Request{Tag: g.Tag, ID: g.ID})
}

// ask sends a confirm, checks its outcome and returns its image.
func (p *peer) ask(g Grant, r Request, want Outcome) *Image {
	p.Helper()
	return p.image("confirm", r, want, func(ctx context.Context) (Answer, error) {
		return p.Confirm(ctx, p.filter(), g.Pin, r)
	})
}

func (p *peer) image(name string, r Request, want Outcome, send func(context.Context) (Answer, error)) *Image {
	p.Helper()
	var img *Image
	p.untouched(name, func() {
		p.once(name, func() {
			got, err := send(p.Context())
			if err != nil || got.Outcome != want {
				p.Fatalf("%s(%s, %s): %v, %v; want %v", name, r.Tag, r.ID[:3], got.Outcome, err, want)
			}
			img = got.Image
		})
	})
	if img == nil {
		p.Fatalf("%s: %v without an image", name, want)
	}
	p.asStored(name, img)
	if !img.Now.Equal(p.clock.Now()) {
		p.Errorf("%s: the image's time is %v, not %v", name, img.Now, p.clock.Now())
	}
	return img
}

// asStored checks that the image shows the stored document.
func (p *peer) asStored(name string, img *Image) {
	p.Helper()
	doc := p.Stored()
	if id := doc.Lookup("_id"); !img.ID.Equal(id) {
		p.Errorf("%s: the image is of document %v, not %v", name, img.ID, id)
	}
	field, _ := doc.LookupErr(p.Field)
	stored, err := parseLock(field)
	if err != nil {
		p.Fatal(err)
	}
	if diff := cmp.Diff(stored, img.Lock, cmpopts.EquateEmpty()); diff != "" {
		p.Errorf("%s: the image is not what is stored (-stored +image):\n%s", name, diff)
	}
}

// untouched checks that a command leaves the user's fields the same, byte for
// byte.
func (p *peer) untouched(name string, command func()) {
	p.Helper()
	before := p.users()
	command()
	if after := p.users(); !bytes.Equal(before, after) {
		p.Errorf("%s: the user's fields were %v, and became %v", name, before, after)
	}
}

// users are the document's fields without the lock.
func (p *peer) users() bson.Raw {
	p.Helper()
	fields, err := without(p.Stored(), p.Field)
	if err != nil {
		p.Fatal(err)
	}
	return fields
}

// renew sends a renewal and checks its outcome.
func (p *peer) renew(g Grant, want Outcome) {
	p.Helper()
	p.untouched("renew", func() {
		p.plain("renew", g, want, func(ctx context.Context) (Answer, error) { return p.Renew(ctx, g) })
	})
}

// release sends a release and checks its outcome.
func (p *peer) release(g Grant, want Outcome) {
	p.Helper()
	p.untouched("release", func() {
		p.plain("release", g, want, func(ctx context.Context) (Answer, error) { return p.Release(ctx, g) })
	})
}

// write sends a guarded write that keeps the lock and checks its outcome.
func (p *peer) write(g Grant, update any, k int64, want Outcome) {
	p.Helper()
	u := p.parsed(update)
	p.plain("write", g, want, func(ctx context.Context) (Answer, error) { return p.Write(ctx, g, u, k) })
}

// finish sends a guarded write that releases the lock and checks its outcome.
func (p *peer) finish(g Grant, update any, want Outcome) {
	p.Helper()
	u := p.parsed(update)
	p.plain("finish", g, want, func(ctx context.Context) (Answer, error) { return p.WriteAndRelease(ctx, g, u) })
}

func (p *peer) plain(name string, g Grant, want Outcome, send func(context.Context) (Answer, error)) {
	p.Helper()
	p.once(name, func() {
		got, err := send(p.Context())
		if err != nil || got.Outcome != want {
			p.Fatalf("%s(%s, %s): %v, %v; want %v", name, g.Tag, g.ID[:3], got.Outcome, err, want)
		}
	})
}

// proven sends a command that finds nothing, and checks that a linearizable read with
// a time limit has proven it.
func (p *peer) proven(name string, send func(context.Context) (Answer, error)) {
	p.Helper()
	p.sent.Take()
	ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
	defer cancel()
	got, err := send(ctx)
	sent := p.sent.All()
	if err != nil || got.Outcome != Lost || len(sent) != 2 {
		p.Fatalf("%s: %v, %v; %d commands", name, got.Outcome, err, len(sent))
	}
	if limit, _ := sent[1].Lookup("maxTimeMS").AsInt64OK(); !fixture.IsProof(sent[1]) || limit <= 0 {
		p.Errorf("%s: the proof is %v", name, sent[1])
	}
}

func (p *peer) parsed(update any) *Update {
	p.Helper()
	u, err := p.ParseUpdate(update)
	if err != nil {
		p.Fatal(err)
	}
	return u
}

// read reads the image and checks that it equals the stored document.
func (p *peer) read(g Grant) *Image {
	p.Helper()
	var img *Image
	p.untouched("read", func() {
		p.once("read", func() {
			var err error
			if img, err = p.Read(p.Context(), g.Pin); err != nil || img == nil {
				p.Fatalf("read: %v, %v", img, err)
			}
		})
	})
	p.asStored("read", img)
	return img
}

// forked runs body as a subtest in a world of its own.
func forked(t *testing.T, name string, body func(w *world)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		t.Parallel()
		body(newWorld(t, bson.E{Key: "text", Value: "hello"}))
	})
}

// handoff checks the successor's outcome and returns its grant. The lease has
// ended, whatever the outcome is.
func (p *peer) handoff(g Grant, s Successor, want Outcome) Grant {
	p.Helper()
	img := p.image("handoff", s.Request, want, func(ctx context.Context) (Answer, error) {
		return p.Handoff(ctx, g, s)
	})
	return p.Grant(img, s.Request)
}

// writeAndHandOff is handoff with an update.
func (p *peer) writeAndHandOff(g Grant, update any, s Successor, want Outcome) Grant {
	p.Helper()
	u := p.parsed(update)
	var img *Image
	p.once("writeAndHandOff", func() {
		got, err := p.WriteAndHandOff(p.Context(), g, u, s)
		if img = got.Image; err != nil || img == nil || got.Outcome != want {
			p.Fatalf("writeAndHandOff(%s, %s): %v, %v, %v; want %v", g.ID[:3], s.ID[:3], got.Outcome, got.Image, err, want)
		}
	})
	p.asStored("writeAndHandOff", img)
	return p.Grant(img, s.Request)
}

// noHandoff checks that a handoff, and one with an update, change nothing.
func (p *peer) noHandoff(g Grant, update any, s Successor) {
	p.Helper()
	before := p.Stored()
	u := p.parsed(update)
	if got, err := p.Handoff(p.Context(), g, s); got.Outcome != Lost || got.Image != nil || err != nil {
		p.Errorf("handoff: %v, %v, %v", got.Outcome, got.Image, err)
	}
	if got, err := p.WriteAndHandOff(p.Context(), g, u, s); got.Outcome != Lost || got.Image != nil || err != nil {
		p.Errorf("handoff with an update: %v, %v, %v", got.Outcome, got.Image, err)
	}
	if after := p.Stored(); !bytes.Equal(before, after) {
		p.Errorf("made %v of %v", after, before)
	}
}
