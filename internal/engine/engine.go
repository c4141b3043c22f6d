package engine

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Engine sends the protocol's commands for one collection and one set of rules.
// It is safe for concurrent use. Its only mutable state is whether its server
// could be reached and has members, and the templates that it has made for the terms
// of single acquires.
type Engine struct {
	Config
	contact contact
	members members
	terms   byTerms
	coll    *mongo.Collection
	name    bson.RawValue // of the collection
	encoder encoder       // of the caller's values
	field   string
	rules   relations.Rules
	tags    map[string]*tagCommands
	image   template      // the projection of an image without the document
	done    template      // what is pushed to `done`, in a classic update
	byID    template      // what is pulled from a tag
	owner   bson.RawValue // of an entry, in a classic update
}

// tagCommands are the parts of the commands for one tag.
type tagCommands struct {
	decision       decision                // without the times that terms decide
	timed          [timedCommands]template // by the Locker's own terms
	release, leave template                // a release by itself, and as a stage
	image          template                // the projection with the document as of the grant
	free           template                // the part of a claim's filter
	fences         bson.Raw                // the projection of ids and fencing tokens, and of their times
	first          first                   // for a compare-and-set
}

// New prepares the commands. rules must be valid, and cfg complete.
func New(coll *mongo.Collection, rules relations.Rules, cfg Config) (*Engine, error) {
	encoder, err := newEncoder(coll)
	if err != nil {
		return nil, err
	}
	if i := slices.IndexFunc(cfg.ShardKey, func(key string) bool { return within(key, cfg.Field) }); i >= 0 {
		return nil, fmt.Errorf("ShardKey has %q, which is in the lock's field %q; the lock changes, and a shard key must not", cfg.ShardKey[i], cfg.Field)
	}
	db := coll.Database().Client().Database(coll.Database().Name(), options.Database().
		SetRegistry(plainRegistry).
		SetBSONOptions(&options.BSONOptions{}))
	e := &Engine{
		Config:  cfg,
		coll:    db.Collection(coll.Name()),
		name:    value(coll.Name()),
		encoder: encoder,
		field:   cfg.Field,
		owner:   value(cfg.Owner),
		rules:   rules.Clone(),
		tags:    map[string]*tagCommands{},
	}
	e.start = time.Now()
	// The pin begins with the whole _id, whether or not the shard key contains
	// it or a part of it.
	e.ShardKey = slices.DeleteFunc(slices.Clone(cfg.ShardKey), func(key string) bool { return within(key, "_id") })
	var now expr = "$$NOW"
	if cfg.Now != nil {
		now = nowPlaceholder
	}
	image := bson.D{{Key: "_id", Value: 1}, {Key: e.field, Value: 1}, {Key: nowKey, Value: now}}
	for _, key := range e.ShardKey {
		image = append(image, bson.E{Key: key, Value: 1})
	}
	id := idValue(idPlaceholder)
	for tag, d := range e.decisions(now) {
		c := &tagCommands{decision: d, first: firstOf(e.path(tag)), fences: value(bson.D{
			{Key: "_id", Value: 1},
			{Key: e.path(tag) + "." + idKey, Value: 1},
			{Key: e.path(tag) + "." + fenceKey, Value: 1},
			{Key: e.path(tag) + "." + seqKey, Value: 1}, // for other readers: histories, people
			{Key: e.path(tag) + "." + expiresKey, Value: 1},
		}).Value}
		for _, t := range []struct {
			into *template
			from any
		}{
			{&c.release, bson.D{{Key: "$pull", Value: bson.D{{Key: e.path(tag), Value: bson.D{{Key: idKey, Value: id}}}}}}},
			{&c.leave, stage(e.path(tag), others(d.own, id))},
			{&c.free, d.free()},
			{&c.image, append(image[:len(image):len(image)], bson.E{Key: docKey, Value: cond(d.granted(id), "$$ROOT", "$$REMOVE")})},
		} {
			if *t.into, err = newTemplate(t.from); err != nil {
				return nil, err
			}
		}
		e.tags[tag] = c
		for command := range c.timed {
			made, err := e.makeTimed(timed(command), tag, Terms{})
			if err != nil {
				return nil, err
			}
			c.timed[command] = *made
		}
	}
	if e.done, err = newTemplate(bson.D{{Key: "$each", Value: args{id}}, {Key: "$slice", Value: -doneCap}}); err != nil {
		return nil, err
	}
	if e.byID, err = newTemplate(bson.D{{Key: idKey, Value: id}}); err != nil {
		return nil, err
	}
	e.image, err = newTemplate(image)
	return e, err
}

// Rules returns the rules that the engine decides by. They must not be changed.
func (e *Engine) Rules() relations.Rules { return e.rules }

// path is the path of a tag's entries.
func (e *Engine) path(tag string) string { return e.field + "." + tagsKey + "." + tag }

func (e *Engine) now() time.Time {
	if e.Now == nil {
		return time.Time{}
	}
	return e.Now()
}

// Request describes the entry of an acquire or a confirm.
type Request struct {
	Tag      string
	ID       uuid.UUID
	Try      bool // refuse rather than wait
	Document bool // the image holds the document as of the grant
	Terms    Terms
}

// Acquire sends one acquire. The entry is granted, or joins as a waiting entry,
// or is refused and leaves no trace. A repeat with the same id extends the
// entry that it finds. The image is nil if the outcome is NotFound. With
// Config.Upsert two more commands make a missing document first, if the filter matches it
// then.
func (e *Engine) Acquire(ctx context.Context, f Filter, r Request) (Answer, error) {
	t := e.arriving(r)
	img, sent, err := e.show(ctx, forAcquire, f.doc, f.sort, t.fill(r.ID, e.now()), r)
	if img == nil && err == nil && e.Upsert && f.Unmet == "" {
		img, sent, err = e.insertAndModify(ctx, f, t, r)
	}
	return e.answer(img, err, sent, r, NotFound, Conflict)
}

// Confirm sends one confirm for a waiting entry. The entry is granted, or its
// waiting is extended, or it is Lost. The image is nil if the document does not
// exist.
func (e *Engine) Confirm(ctx context.Context, pin Pin, r Request) (Answer, error) {
	img, sent, err := e.modify(ctx, forConfirm, bson.D(pin), e.confirming(r), r)
	a, err := e.answer(img, err, sent, r, Lost, Lost)
	if a.Outcome == Lost {
		a.Gone = img == nil
		return e.lost(ctx, a, err, pin, withID(r.Tag, r.ID))
	}
	return a, err
}

// Renew sends one renewal. It extends only an entry with this id and this
// fencing token.
func (e *Engine) Renew(ctx context.Context, g Grant) (Answer, error) {
	return e.matched(ctx, g.Pin, change{comment: forRenew, query: e.Guard(g), update: e.renewing(g).fill(g.ID, e.now())}, Renewed, g.owns)
}

// Look is a renewal whose image shows the whole lock, and the document if it is
// asked for.
func (e *Engine) Look(ctx context.Context, g Grant, document bool) (Answer, error) {
	img, sent, err := e.modify(ctx, forRenew, e.Guard(g), e.renewing(g), Request{Tag: g.Tag, ID: g.ID, Document: document})
	a := Answer{Outcome: Renewed, Image: img, Sent: sent}
	if img == nil {
		return e.lost(ctx, a, err, g.Pin, g.owns)
	}
	return a, err
}

// Read reads the newest image without changing anything: it gives the verdict on
// writes of unknown outcome. The image is nil if the document does not exist.
func (e *Engine) Read(ctx context.Context, pin Pin) (img *Image, err error) {
	projection := e.image.fill(uuid.Nil, e.now()).document()
	var found bson.Raw
	if _, err = e.newest(ctx, search{comment: forProof, filter: bson.D(pin), fields: projection}, func(doc bson.Raw) { found = doc }); err != nil {
		return nil, err
	}
	return e.readImage(found, nil)
}

// modify sends one pipeline and reads its image.
func (e *Engine) modify(ctx context.Context, comment bson.RawValue, filter any, t *template, r Request) (*Image, Reading, error) {
	return e.show(ctx, comment, filter, nil, t.fill(r.ID, e.now()), r)
}

// show sends one update to the first document by the keys of sort, which may be
// nil, and reads its image.
func (e *Engine) show(ctx context.Context, comment bson.RawValue, filter any, sort bson.Raw, update any, r Request) (*Image, Reading, error) {
	fields := e.projection(r).fill(r.ID, e.now()).document()
	raw, sent, err := e.send(ctx, change{comment: comment, query: filter, update: update, sort: sort, shows: after, fields: fields})
	img, err := e.readImage(raw, err)
	if err != nil {
		return nil, sent, err
	}
	return img, sent, nil
}

// projection is the projection of the image, with the document as of the grant
// if the request asks for it.
func (e *Engine) projection(r Request) *template {
	if r.Document {
		return &e.tags[r.Tag].image
	}
	return &e.image
}

// nothing is what an $unset says of a field.
var nothing = value("")

// matched sends a change whose query decides everything: it matches the document of the
// pin while that has an entry that is its own.
func (e *Engine) matched(ctx context.Context, pin Pin, c change, outcome Outcome, own func(Entry) bool) (Answer, error) {
	img, sent, err := e.send(ctx, c)
	a := Answer{Outcome: outcome, Sent: sent}
	if img == nil {
		return e.lost(ctx, a, err, pin, own)
	}
	return a, err
}
