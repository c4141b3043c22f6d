package engine

import (
	"context"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Successor is a waiter of this process to which a lease's holder hands the
// lock over. One command releases the holder's entry and grants the
// successor's.
type Successor struct {
	Request      // of the entry to be granted; its id is new, unless the entry waits
	Waiting bool // the entry is in the document and waits
}

// Handoff releases the grant's entry and applies the successor's arrival or
// confirm, in one command. It decides as if the successor's command came
// directly after the release. So the lock is released whether or not the
// successor is granted, and a new successor that is not granted leaves no
// trace. The image is nil if the grant's entry is not in the document; then the
// command did nothing. With an image and an error, the lock was released and
// the successor's outcome can't be read.
//
// A handoff that is not possible needs no clean-up. A repeat does nothing: the
// command executes only if it finds the entry that it removes.
func (e *Engine) Handoff(ctx context.Context, g Grant, s Successor) (Answer, error) {
	update := bson.A{e.left(g), e.entry(s).fill(s.ID, e.now()).stage()}
	return e.pass(ctx, change{comment: forHandoff, query: e.Guard(g), update: update, fields: e.shown(s)}, s)
}

// WriteAndHandOff is WriteAndRelease and a handoff in one command.
//
// A pipeline update goes first, and the handoff after it. A classic update
// can't carry a pipeline, so the handoff is piggybacked on a compare-and-set.
// That requires a new successor of the same tag, a grant whose image has no
// other entry, and a lock.fence that is still the image's, so that no other
// entry has come since. The successor's entry takes the place of the grant's
// and inherits its expiry, because plain operators can't compute with the
// clock. They can set the time of its arrival.
func (e *Engine) WriteAndHandOff(ctx context.Context, g Grant, u *Update, s Successor) (Answer, error) {
	if u.stages != nil {
		c := u.change(e.Guard(g))
		c.update = u.pipeline(e.finished(g), e.entry(s).fill(s.ID, e.now()).stage())
		c.fields = e.shown(s)
		return e.pass(ctx, c, s)
	}
	c := u.change(e.alone(g))
	c.update = u.classic(e.succession(g, s)...)
	c.fields = e.shown(s)
	return e.pass(ctx, c, s)
}

// Piggybacks reports whether WriteAndHandOff can send the update, and whether
// the successor then inherits the rest of the lease.
func (e *Engine) Piggybacks(g Grant, u *Update, s Successor) (can, inherits bool) {
	if u.stages != nil {
		return true, false
	}
	unchanged := e.LeaseBy(s.Tag, s.Terms) == g.TTL && s.Terms.Least == 0 && s.Terms.Most == 0 && g.Until.IsZero()
	return g.Alone != 0 && g.Alone+1 < fenceLimit && !s.Waiting && s.Tag == g.Tag && unchanged, true
}

// entry is the pipeline that decides on the successor's entry.
func (e *Engine) entry(s Successor) *template {
	if s.Waiting {
		return e.confirming(s.Request)
	}
	return e.template(trying, s.Tag, s.Terms)
}

// first are the names of the fields of a tag's first entry. The filter of a
// compare-and-set has found the entry there, and its operators write there.
type first struct{ id, owner, seq, fence, since, write, key string }

func firstOf(path string) first {
	entry := path + ".0."
	return first{id: entry + idKey, owner: entry + ownerKey, seq: entry + seqKey, fence: entry + fenceKey, since: entry + sinceKey, write: entry + writeKey, key: entry + tokenKey}
}

// alone is the guard that also requires that the entry is still the only one.
func (e *Engine) alone(g Grant) bson.D {
	entry := &e.tags[g.Tag].first
	return g.Pin.and(
		bson.E{Key: entry.id, Value: idValue(g.ID)},
		bson.E{Key: entry.fence, Value: long(g.Fence)},
		bson.E{Key: e.field + "." + fenceKey, Value: long(g.Alone)},
	)
}

// succession are the operators that replace the grant's entry, which is the
// only one, with the successor's. The successor has no writes and no token yet.
func (e *Engine) succession(g Grant, s Successor) []operator {
	entry, next := &e.tags[g.Tag].first, long(g.Alone+1)
	set := assemble(256).
		add(e.field+"."+fenceKey, next).
		add(entry.id, idValue(s.ID)).
		add(entry.owner, e.ownerBy(s.Terms)).
		add(entry.seq, next).
		add(entry.fence, next)
	unset := assemble(64).add(entry.write, nothing)
	if g.Key != uuid.Nil {
		unset = unset.add(entry.key, nothing)
	}
	own := []operator{
		{"$unset", unset.end()},
		e.pushDone(g),
	}
	if e.Now != nil {
		set = set.add(entry.since, value(e.now()))
	} else {
		own = append(own, operator{"$currentDate", field(entry.since, value(true))})
	}
	return append(own, operator{"$set", set.end()})
}

// shown is the projection of the successor's image.
func (e *Engine) shown(s Successor) bson.Raw {
	return e.projection(s.Request).fill(s.ID, e.now()).document()
}

// pass sends a handoff, and reads the successor's image.
func (e *Engine) pass(ctx context.Context, c change, s Successor) (Answer, error) {
	c.shows = after
	raw, sent, err := e.send(ctx, c)
	img, err := e.readImage(raw, err)
	if err != nil {
		return Answer{Outcome: Lost, Image: img, Sent: sent}, err
	}
	noEntry := Conflict
	if s.Waiting {
		noEntry = Lost
	}
	return e.answer(img, nil, sent, s.Request, Lost, noEntry)
}
