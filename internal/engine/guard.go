package engine

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Pin is the filter that names one document for good: its _id and the fields of
// the shard key, each a [bson.RawValue]. The caller's own filter may stop
// matching under the lock.
type Pin bson.D

// ID is the document's _id.
func (p Pin) ID() bson.RawValue { return p[0].Value.(bson.RawValue) }

// Compare is the order in which a command of several statements names its
// documents: some servers lock the documents until the whole command is done, and
// two commands would wait for each other.
func (p Pin) Compare(other Pin) int {
	x, y := p.ID(), other.ID()
	return cmp.Or(cmp.Compare(x.Type, y.Type), bytes.Compare(x.Value, y.Value))
}

func (p Pin) and(more ...bson.E) bson.D {
	return append(slices.Clone(bson.D(p)), more...)
}

// Pin makes the pin of the image's document.
func (e *Engine) Pin(img *Image) Pin {
	pin := Pin{{Key: "_id", Value: img.ID}}
	for _, key := range e.ShardKey {
		v := bson.RawValue{Type: bson.TypeNull} // a missing field is null to the shard key, and to a filter
		if found, err := img.raw.LookupErr(strings.Split(key, ".")...); err == nil {
			v = clone(found)
		}
		pin = append(pin, bson.E{Key: key, Value: v})
	}
	return pin
}

// Grant is what a holder knows about its entry, which is the one of the grant's image.
type Grant struct {
	Entry
	Pin  Pin
	TTL  time.Duration
	Most time.Duration // of its terms

	// LastDone is the newest id in `done` in the grant's image, or Nil. While
	// that id is still there, no later id was pushed out.
	LastDone uuid.UUID

	// Alone is the lock.fence of the grant's image if that image had no other
	// entry, or else 0. While lock.fence has that value, no other entry has
	// come.
	Alone int64
}

// Grant reads the grant of a request from an image that has the entry.
func (e *Engine) Grant(img *Image, r Request) Grant {
	own, _ := img.Lock.Find(r.Tag, r.ID)
	g := Grant{Entry: own, Pin: e.Pin(img), TTL: e.LeaseBy(r.Tag, r.Terms), Most: r.Terms.Most}
	if len(img.Lock.Entries) == 1 {
		g.Alone = img.Lock.Fence
	}
	if n := len(img.Lock.Done); n > 0 {
		g.LastDone = img.Lock.Done[n-1]
	}
	return g
}

// Guard is the filter that matches while the entry is in the document with its
// own fencing token, and with more, if that is given. It uses no clock: an entry is
// valid while it is present.
func (e *Engine) Guard(g Grant, more ...bson.E) bson.D {
	entry := append(bson.D{{Key: idKey, Value: idValue(g.ID)}, {Key: fenceKey, Value: g.Fence}}, more...)
	return g.Pin.and(bson.E{Key: e.path(g.Tag), Value: value(bson.D{{Key: "$elemMatch", Value: entry}})})
}

// owns says that an entry is the grant's own: that the guard matches it.
func (g Grant) owns(e Entry) bool { return e.Tag == g.Tag && e.ID == g.ID && e.Fence == g.Fence }

// withID says of an entry what the filter of that name does.
func withID(tag string, id uuid.UUID) func(Entry) bool {
	return func(e Entry) bool { return e.Tag == tag && e.ID == id }
}

// withID is the filter that matches while an entry has the id.
func (e *Engine) withID(pin Pin, tag string, id uuid.UUID) bson.D {
	return pin.and(bson.E{Key: e.path(tag) + "." + idKey, Value: idValue(id)})
}

// Write sends the caller's update under the guard and keeps the lock. k is the
// write's number in this lease. The entry remembers the last number, so that a
// repeat is not applied twice.
func (e *Engine) Write(ctx context.Context, g Grant, u *Update, k int64) (Answer, error) {
	notYet := bson.E{Key: writeKey, Value: bson.D{{Key: "$not", Value: bson.D{{Key: "$gte", Value: k}}}}}
	c := u.change(e.Guard(g, notYet))
	if u.stages != nil {
		entries := inPlace("$"+e.path(g.Tag), idValue(g.ID), bson.D{{Key: writeKey, Value: k}})
		c.update = u.pipeline(setStage(bson.D{{Key: e.path(g.Tag), Value: entries}}))
	} else {
		c.update = u.classic(operator{numbering, field(e.path(g.Tag)+".$["+ownIdentifier+"]."+writeKey, long(k))})
		c.filters = append(slices.Clone(u.filters), field(ownIdentifier+"."+idKey, idValue(g.ID)))
	}
	return e.matched(ctx, g.Pin, c, Applied, func(own Entry) bool { return g.owns(own) && own.Writes < k })
}

// WriteAndRelease sends the caller's update under the guard. The same command
// releases the lock and pushes the lease's id to `done`, where a repeat finds
// its verdict. The update must be one that [Update.Releases].
func (e *Engine) WriteAndRelease(ctx context.Context, g Grant, u *Update) (Answer, error) {
	c := u.change(e.Guard(g))
	if u.stages != nil {
		c.update = u.pipeline(e.finished(g))
	} else {
		c.update = u.classic(operator{"$pull", field(e.path(g.Tag), e.byID.fill(g.ID, time.Time{}).value())}, e.pushDone(g))
	}
	return e.matched(ctx, g.Pin, c, Applied, g.owns)
}

// Releases says that the update's command can release the entry too. A classic update
// can't compare with the clock, as it must for an entry that may leave a remainder.
func (u *Update) Releases(g Grant) bool { return u.stages != nil || g.Until.IsZero() }

// finished is the stage that releases the lock after a pipeline update.
func (e *Engine) finished(g Grant) bson.Raw {
	path, done, id := e.path(g.Tag), e.field+"."+doneKey, idValue(g.ID)
	entries := others("$"+path, id)
	if !g.Until.IsZero() {
		entries = e.leaving(g)
	}
	return setStage(bson.D{
		{Key: path, Value: entries},
		{Key: done, Value: call("$slice", call("$concatArrays", orElse("$"+done, args{}), args{id}), -doneCap)},
	})
}

// pushDone is the operator that pushes to `done` in a classic update.
func (e *Engine) pushDone(g Grant) operator {
	return operator{"$push", field(e.field+"."+doneKey, e.done.fill(g.ID, time.Time{}).value())}
}

// change is a change by the update, with the caller's options.
func (u *Update) change(query any) change {
	return change{query: query, filters: u.filters, options: u.options}
}
