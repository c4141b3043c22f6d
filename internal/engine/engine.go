// Package engine is the protocol: the layout in the document, the decision as
// an aggregation expression, the commands, and the meaning of their answers.
// Each command is one round trip. The engine has no goroutines, keeps no state
// between commands, repeats no command and knows no public error.
//
// Read it from below: layout.go has what is stored, decision.go has who is granted, encode.go has the form of what is
// sent, filter.go and update.go take in what callers give, failure.go and send.go are about the server, answer.go says
// what an answer means. acquire.go, lease.go, token.go and admin.go have the commands: of who asks, of a holder, of the
// users of a token, of an operator.
//
// Some rules look fussy. Each one keeps two holders apart; docs/protocol.md has the trace without it:
//
//   - An entry is always matched by id and fencing token: a late duplicate of an
//     acquire can bring an id back, never a fencing token.
//   - An expiry only moves forward: an older command may arrive after a newer.
//   - A repeat extends what it finds, so that the attempt that was answered is
//     the one that the holder's validity is counted from.
//   - Grants and joins prune what has expired, so that an expired holder's
//     guard can't pass beside a new holder.
//   - A confirm is blocked by cooperative relations and by unknown tags too,
//     if the other entry is held or earlier. No later entry blocks it, so
//     that no two entries wait for each other.
//   - Every grant and every join takes the next value of lock.fence.
//   - A release before the time that the grant wrote down leaves a remainder,
//     under an id that no late command of the lease matches.
//   - A guarded write is numbered in the entry: a repeat is not applied twice.
package engine

import (
	"cmp"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Engine sends the protocol's commands for one collection and one set of rules.
// It is safe for concurrent use. Its only mutable state is whether its server
// could be reached, has members and an index of the fences, and the templates that it has made.
type Engine struct {
	Config
	coll    *mongo.Collection
	name    bson.RawValue // of the collection
	encoder encoder       // of the caller's values
	rules   relations.Rules

	reached   atomic.Bool // the server, by the last command
	members   atomic.Int32
	indexed   atomic.Bool // the fences are, or the server has refused that
	mu        sync.Mutex  // of the templates
	templates map[templateKey]*template
}

// New makes the engine. rules must be valid, and cfg complete.
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
	e := Reader(cfg)
	e.coll, e.name, e.encoder = db.Collection(coll.Name()), value(coll.Name()), encoder
	e.rules, e.templates = rules.Clone(), map[templateKey]*template{}
	e.start = time.Now()
	return e, nil
}

// Reader makes an engine that sends nothing, and reads the images in documents that
// others have found.
func Reader(cfg Config) *Engine {
	// The pin begins with the whole _id, whether or not the shard key contains
	// it or a part of it.
	cfg.ShardKey = slices.DeleteFunc(slices.Clone(cfg.ShardKey), func(key string) bool { return within(key, "_id") })
	return &Engine{Config: cfg}
}

// Rules returns the rules that the engine decides by. They must not be changed.
func (e *Engine) Rules() relations.Rules { return e.rules }

// Namespace is the collection's name after its database's, as in "shop.orders".
func (e *Engine) Namespace() string { return e.coll.Database().Name() + "." + e.coll.Name() }

// SameNames says that both engines lock in fields and collections of the same names.
func (e *Engine) SameNames(other *Engine) bool {
	return e.Namespace() == other.Namespace() && e.Field == other.Field
}

// path is the path of a tag's entries.
func (e *Engine) path(tag string) string { return e.Field + "." + tagsKey + "." + tag }

// serverTime is the server's time, in a command.
func (e *Engine) serverTime() expr {
	if e.Now == nil {
		return "$$NOW"
	}
	return e.Now()
}

// decision is the decision on an entry of this tag that is held for this TTL.
func (e *Engine) decision(tag string, ttl time.Duration) decision {
	return decision{
		lock: "$" + e.Field, own: "$" + e.path(tag), tag: tag, rules: e.rules, order: e.rules.Tags(), now: e.serverTime(),
		held: (ttl + e.Tolerance).Milliseconds(), wait: (e.Wait(tag) + e.Tolerance).Milliseconds(),
	}
}

// part is a part of a command that has a template.
type part uint8

const (
	acquiring part = iota
	trying         // an acquire that doesn't wait
	confirming
	renewing
	releasing // operators, where no remainder may stay
	leaving   // the same as a stage
	finding   // the filter of a claim
	image     // a projection
	imageWith // the document as of the grant
	fences    // a projection: the own tag's ids and fencing tokens, and their times
)

type templateKey struct {
	part
	tag   string
	terms Terms
}

// mostTemplates is the number of templates that are kept. Most programs use few terms, but
// some a new owner for each acquire.
const mostTemplates = 512

// fill is a part of a command for a request.
func (e *Engine) fill(p part, r Request) bson.RawValue {
	r.Terms.TTL, r.Terms.Most = e.LeaseBy(r.Tag, r.Terms), 0
	if e.Now != nil || len(r.Settled) > 0 { // a time that is set by hand, or a mark, is in the command
		return newTemplate(e.compose(p, r)).fill(r.ID)
	}
	key := templateKey{p, r.Tag, r.Terms}
	e.mu.Lock()
	made := e.templates[key]
	if made == nil {
		if len(e.templates) == mostTemplates { // to make one again costs less than to send it
			clear(e.templates)
		}
		made = newTemplate(e.compose(p, r))
		e.templates[key] = made
	}
	e.mu.Unlock()
	return made.fill(r.ID)
}

// decisionOf is the decision on a request.
func (e *Engine) decisionOf(r Request) decision {
	d := e.decision(r.Tag, e.LeaseBy(r.Tag, r.Terms))
	if r.Terms.Least > 0 {
		d.until = (r.Terms.Least + e.Tolerance).Milliseconds()
	}
	d.settled = r.Settled
	return d
}

// compose is a part of a command, with a placeholder for the id.
func (e *Engine) compose(p part, r Request) any {
	d, id, path := e.decisionOf(r), placeholder, e.path(r.Tag)
	switch p {
	case acquiring, trying:
		return d.arrival(p == acquiring, id, cmp.Or(r.Terms.Owner, e.Owner))
	case confirming:
		return d.confirmation(id)
	case renewing:
		return stage(path, inPlace(d.own, id, bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}})) // which the filter has found
	case releasing:
		return bson.D{{Key: "$pull", Value: bson.D{{Key: path, Value: bson.D{{Key: idKey, Value: id}}}}}}
	case leaving:
		return stage(path, others(d.own, id))
	case finding:
		return d.free()
	case fences:
		fields := bson.D{{Key: "_id", Value: 1}}
		for _, key := range []string{idKey, fenceKey, seqKey, expiresKey} { // seq is for other readers: histories, people
			fields = append(fields, bson.E{Key: path + "." + key, Value: 1})
		}
		return fields
	}
	fields := bson.D{{Key: "_id", Value: 1}, {Key: e.Field, Value: 1}, {Key: nowKey, Value: d.now}}
	for _, key := range e.ShardKey {
		fields = append(fields, bson.E{Key: key, Value: 1})
	}
	if p == imageWith {
		fields = append(fields, bson.E{Key: docKey, Value: cond(d.granted(id), "$$ROOT", "$$REMOVE")})
	}
	return fields
}
