package engine

import (
	"context"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Successor is a waiter of this process, to whom a lease's holder hands the
// lock over instead of releasing it to nobody: the command that releases the
// one grants the other.
type Successor struct {
	Request      // of the entry to be granted; its id has served nothing else, unless it waits
	Waiting bool // the entry stands in the document and waits
}

// Handoff sends one release of the grant's entry, and with it the arrival or
// the confirm of the successor's, judged as if it came the moment after. So the
// lock is released, whether the successor can have it or not; a new successor that
// can't have it leaves nothing. The image is nil when the grant's entry is not
// there: then nothing was done. With an image and an error the lock was
// released, and what became of the successor can't be read.
//
// It needs no clean-up where it is not possible, and its repeat finds nothing
// to do: only the entry that it removes lets it execute.
func (e *Engine) Handoff(ctx context.Context, g Grant, s Successor) (Answer, error) {
	now := e.now()
	leave := e.tags[g.Tag].leave.fill(g.ID, now).stage()
	return e.pass(ctx, e.guard(g), bson.A{leave, e.entry(s).fill(s.ID, now).stage()}, e.shown(options.FindOneAndUpdate(), s), s)
}

// WriteAndHandOff is WriteAndRelease and a handoff in one command.
//
// A pipeline goes first, and the handoff after it. A classic update can't
// carry a pipeline; it is piggybacked on a compare-and-set, and only then is anything
// done: the successor must be new and of the same tag, no other entry stood in the
// grant's image, and lock.fence is still what it was there, so that nobody has
// come since. The successor's entry takes the place of the grant's, and inherits its
// expiry: plain operators have no clock arithmetic, though they can tell its
// arrival. With the document, it
// answers with an image that is whole.
func (e *Engine) WriteAndHandOff(ctx context.Context, g Grant, u *Update, s Successor) (Answer, error) {
	opts := u.options()
	if u.stages != nil {
		update := u.pipeline(e.finished(g), e.entry(s).fill(s.ID, e.now()).stage())
		return e.pass(ctx, e.guard(g), update, e.shown(opts, s), s)
	}
	if s.Document { // which holds the lock: nothing has to be computed, or sent twice
		opts.SetProjection(nil)
	} else {
		e.shown(opts, s)
	}
	return e.pass(ctx, e.alone(g), u.classic(e.succession(g, s)...), opts, s)
}

// Piggybacks reports whether the update can be sent by WriteAndHandOff, and whether
// the successor then inherits what is left of the lease.
func (e *Engine) Piggybacks(g Grant, u *Update, s Successor) (can, inherits bool) {
	if u.stages != nil {
		return true, false
	}
	return g.Alone != 0 && !s.Waiting && s.Tag == g.Tag, true
}

// entry is what grants the successor's.
func (e *Engine) entry(s Successor) *template {
	if s.Waiting {
		return &e.tags[s.Tag].confirm
	}
	return &e.tags[s.Tag].try
}

// first are the names of the fields of a tag's first entry: where the filter
// of a compare-and-set has found it, its operators write.
type first struct{ id, owner, seq, fence, since, write string }

func firstOf(path string) first {
	entry := path + ".0."
	return first{id: entry + idKey, owner: entry + ownerKey, seq: entry + seqKey, fence: entry + fenceKey, since: entry + sinceKey, write: entry + writeKey}
}

// alone is the guard that also wants the entry to be the only one still.
func (e *Engine) alone(g Grant) bson.D {
	entry := &e.tags[g.Tag].first
	return g.Pin.and(
		bson.E{Key: entry.id, Value: idValue(g.ID)},
		bson.E{Key: entry.fence, Value: long(g.Fence)},
		bson.E{Key: e.field + "." + fenceKey, Value: long(g.Alone)},
	)
}

// succession are the operators that put the successor's entry in the place of the
// grant's, which is the only one. It has written nothing yet.
func (e *Engine) succession(g Grant, s Successor) []operator {
	entry, next := &e.tags[g.Tag].first, long(g.Alone+1)
	set := assemble(256).
		add(e.field+"."+fenceKey, next).
		add(entry.id, idValue(s.ID)).
		add(entry.owner, e.owner).
		add(entry.seq, next).
		add(entry.fence, next)
	own := []operator{
		{"$unset", field(entry.write, nothing)},
		e.pushDone(g),
	}
	if e.Now != nil {
		set = set.add(entry.since, value(e.now()))
	} else {
		own = append(own, operator{"$currentDate", field(entry.since, value(true))})
	}
	return append(own, operator{"$set", set.end()})
}

// shown has the command answer with the successor's image.
func (e *Engine) shown(opts *options.FindOneAndUpdateOptionsBuilder, s Successor) *options.FindOneAndUpdateOptionsBuilder {
	return opts.SetProjection(e.projection(s.Request).fill(s.ID, e.now()).document())
}

func (e *Engine) pass(ctx context.Context, filter, update any, opts *options.FindOneAndUpdateOptionsBuilder, s Successor) (Answer, error) {
	result, sent := e.findOneAndUpdate(ctx, filter, update, opts.SetReturnDocument(options.After))
	img, err := e.readImage(result)
	if err != nil {
		return Answer{Outcome: Lost, Image: img, Sent: sent}, e.failed(err)
	}
	noEntry := Conflict
	if s.Waiting {
		noEntry = Lost
	}
	return img.answer(sent, s.Request, Lost, noEntry), nil
}
