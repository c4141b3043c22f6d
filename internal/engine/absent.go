package engine

import (
	"context"
	"slices"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// This file proves negative answers (rule 27). A deposed primary, or a router that
// still uses one, finds no entry that its successor has granted. It answers at
// once, also with majority write concern: a command that changes nothing waits for
// the member's last write, which may be committed. A linearizable read is answered
// only by a primary that a majority of the members still follows.

// members says whether the server has members, one of which may be a deposed primary.
type members struct{ state atomic.Int32 }

const (
	unasked int32 = iota
	several
	single
)

// hasMembers asks the server once, by the driver's own command for that. A server
// that doesn't know it (MongoDB 4.4.0) refuses the read, if it has no members.
func (e *Engine) hasMembers(ctx context.Context) (bool, error) {
	if e.members.state.Load() == unasked {
		var hello bson.Raw
		err := e.failed(guard(func() (err error) {
			hello, err = e.coll.Database().Client().Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
			return err
		}))
		router, _ := hello.Lookup("msg").StringValueOK()
		_, noSet := hello.LookupErr("setName")
		switch {
		case err == nil && noSet != nil && router != "isdbgrid":
			e.members.state.Store(single)
		case err == nil, AsFailure(err).Refused():
			e.members.state.Store(several)
		default:
			return false, err
		}
	}
	return e.members.state.Load() == several, nil
}

// newest sends a read, which is linearizable where the server has members, and calls
// see with each document. It returns the clocks from before the send.
func (e *Engine) newest(ctx context.Context, s search, see func(bson.Raw)) (sent Reading, err error) {
	if sent, err = e.begin(ctx); err != nil {
		return sent, err
	}
	has, err := e.hasMembers(ctx)
	if err != nil {
		return sent, err
	}
	if has {
		err := e.visit(ctx, linearizableRead, s, see)
		if err == nil || AsFailure(err).Cause != CauseUnsupported {
			return sent, err
		}
		e.members.state.Store(single)
	}
	return sent, e.visit(ctx, majorityRead, s, see)
}

// lost is the answer of a command that has found no entry of its own, after the proof:
// where the server has members, a read of the document. The answer has what it shows.
func (e *Engine) lost(ctx context.Context, a Answer, err error, pin Pin, own func(Entry) bool) (Answer, error) {
	a.Outcome = Lost
	if err != nil {
		return a, err
	}
	has, err := e.hasMembers(ctx)
	if err != nil {
		return a, unproven(err)
	}
	if !has {
		return a, nil
	}
	return e.proven(ctx, a, pin, own, "the server that answered is no longer the primary")
}

// proven is the answer of a command that has found no entry of its own, after a read of
// the document. Why it has missed an entry that is there is for the error.
func (e *Engine) proven(ctx context.Context, a Answer, pin Pin, own func(Entry) bool, why string) (Answer, error) {
	img, err := e.Read(ctx, pin)
	switch {
	case img != nil && slices.ContainsFunc(e.allEntries(img.raw), own):
		return a, race(why)
	case err != nil && img == nil:
		return a, unproven(err)
	default: // a foreign lock has no entries
		a.Image, a.Gone = img, img == nil
		return a, nil
	}
}

// Absent proves that no document matches the filter of an acquire that was
// answered with NotFound. It sends nothing if the server has no members, and else a
// read. The error is a Failure that passes if a document matches after all, or one
// that is Unproven.
func (e *Engine) Absent(ctx context.Context, f Filter) error { return e.absent(ctx, f.doc) }

func (e *Engine) absent(ctx context.Context, filter any) error {
	has, err := e.hasMembers(ctx)
	if err != nil {
		return unproven(err)
	}
	if !has {
		return nil
	}
	found := false
	_, err = e.newest(ctx, search{comment: forProof, filter: filter, fields: justID.Value}, func(bson.Raw) { found = true })
	switch {
	case found:
		return race("the server that answered is no longer the primary")
	case err != nil:
		return unproven(err)
	default:
		return nil
	}
}

// unproven is the failure of a command that has found nothing, where the proof has
// failed.
func unproven(err error) error {
	f := *AsFailure(err)
	f.Nothing, f.Unproven = true, true
	return &f
}
