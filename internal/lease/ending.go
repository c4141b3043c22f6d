package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// lastCommand is a command that releases the lock and does something else with it.
type lastCommand struct {
	name string // in errors
	send func(ctx context.Context, to *handoff, first engine.Reading) (engine.Answer, error)

	// judge is the verdict on an answer. unsure is set if an earlier attempt may have
	// been executed.
	judge func(ctx context.Context, to *handoff, got engine.Answer, unsure error) error
}

// UpdateAndRelease implements doclock.Lease. One of several holders writes, and
// the others keep the lock.
func (h *Handle) UpdateAndRelease(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	u, err := h.prepare(ctx, update, opts)
	if err != nil {
		return err
	}
	if err := h.hold.lockGate(ctx, &h.writing); err != nil {
		return err
	}
	if !u.Releases(h.hold.grant) {
		return h.writeAndLeave(ctx, u)
	}
	v, err := h.claimAll(ctx)
	switch {
	case err != nil:
		h.writing.unlock()
		return err
	case v == nil:
		return engine.Raise(h.writeAndLeave(ctx, u))
	default:
		return engine.Raise(h.runLast(ctx, v, h.hold.lastUpdate(u)))
	}
}

// Delete implements doclock.Lease.
func (h *Handle) Delete(ctx context.Context) error {
	if err := h.ready(ctx); err != nil {
		return err
	}
	if other := notExcluded(h.hold.engine.Rules(), h.Tag()); other != "" {
		return fmt.Errorf("%w: Delete under %q, which does not exclude %q: a lease of that tag would go on beside another document of this _id; "+
			"delete under a tag that excludes all tags of the rules", doclock.ErrInvalidArgument, h.Tag(), other)
	}
	if err := h.hold.lockGate(ctx, &h.writing); err != nil {
		return err
	}
	v, err := h.claimAll(ctx) // no other holder has the entry: a tag that is shared does not exclude itself
	if err != nil {
		h.writing.unlock()
		return err
	}
	return engine.Raise(h.runLast(ctx, v, h.hold.deletion()))
}

// notExcluded is a tag that may be held beside this one, or "". They exclude each other
// if both are in the other's way, whichever came first, and without an allowance.
func notExcluded(rules relations.Rules, tag string) string {
	excludes := func(x, y string) bool { return rules[x][y].Kind != relations.None && rules[x][y].Allow == 0 }
	for _, other := range rules.Tags() {
		if !excludes(tag, other) || !excludes(other, tag) {
			return other
		}
	}
	return ""
}

// claimAll claims the right to release the whole hold, for its only holder, and
// keeps renewals out. If others hold it too, there is neither a verdict nor an
// error.
func (h *Handle) claimAll(ctx context.Context) (v *verdict, err error) {
	s := h.hold
	if s.several() {
		return nil, nil
	}
	if err := s.lockGate(ctx, &s.renewing); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !h.isInLocked():
		err = s.released()
	case s.phase != held: // another holder releases it, after the end of the validity
		err = s.check()
	case len(s.holders) == 1:
		s.become(ending)
		h.released = &verdict{done: make(chan struct{})}
		return h.released, nil
	}
	s.renewing.unlock()
	return nil, err
}

// runLast ends the hold with the command, after claimAll.
func (h *Handle) runLast(ctx context.Context, v *verdict, c lastCommand) error {
	s := h.hold
	err := h.runSending(ctx, s.sending(s.giveUp), func(ctx context.Context) error {
		defer h.writing.unlock()
		defer s.renewing.unlock()
		s.writing.lock()
		defer s.writing.unlock()
		to := s.handoff()
		err, released := s.sendLast(ctx, to, c)
		h.settleAll(ctx, v, released)
		to.close(released)
		return err
	})
	return h.conclude(ctx, v, err, h.settleAll)
}

// conclude is the end of a last command for its caller. One that he has revoked is
// settled here: nobody else does. Observers hear of an unknown outcome what he is told.
func (h *Handle) conclude(ctx context.Context, v *verdict, err error, settle func(context.Context, *verdict, error)) error {
	if revoked(err) {
		settle(ctx, v, err)
		err = h.hold.judged(err)
	}
	h.emitUnknownEnd(ctx, v, err)
	return err
}

// sendLast sends the command, and returns its verdict and the lock's. Right before that
// the validity ends. One that was never sent leaves the hold as it is. A plain release
// follows if the command may not have released the lock. That is safe even if an attempt
// is still on its way: both need the hold's entry, and both remove it.
func (s *Hold) sendLast(ctx context.Context, to *handoff, c lastCommand) (err, released error) {
	if s.declaredLoss() != nil {
		released = s.release(attempt.Detached(ctx), to)
		return released, released
	}
	first := s.engine.Clocks()
	var got engine.Answer
	unsure, err := s.settle(ctx, func(ctx context.Context) (err error) {
		got, err = c.send(ctx, to, first)
		return err
	})
	switch {
	case err == nil:
		err = c.judge(ctx, to, got, unsure)
		return err, err
	case engine.Revoke(ctx), // and the caller may go on
		unsure == nil && ctx.Err() == nil && engine.AsFailure(err).Outage(): // and neither can the release be sent
		err = s.judged(s.failed(c.name, err))
		return err, err
	}
	released = s.release(attempt.Detached(ctx), to)
	if unsure != nil { // what the release finds proves nothing more
		err = s.unknown(c.name, unsure)
		return err, err
	}
	return besides(s.failed(c.name, err), released), released
}

// besides is the error of a command that ends the lease and was followed by a release
// of its own. If the command was not executed, that release has the verdict.
func besides(err, released error) error {
	if repeatable(err) && (errors.Is(released, doclock.ErrLost) || errors.Is(released, doclock.ErrOutcomeUnknown)) {
		return oneline.Join(err, released)
	}
	return err
}

// lastUpdate writes and releases. An update that can't go with a handoff goes by
// itself.
func (s *Hold) lastUpdate(u *engine.Update) lastCommand {
	return lastCommand{
		name: "update",
		send: func(ctx context.Context, to *handoff, first engine.Reading) (engine.Answer, error) {
			done, err := to.writeAndRelease(ctx, first, u)
			if done || err != nil {
				return engine.Answer{Outcome: engine.Applied}, err
			}
			return s.commands.WriteAndRelease(ctx, s.grant, u)
		},
		judge: s.lastWritten,
	}
}

// lastWritten is the verdict on an update that released the lock. `done` shows
// whether an earlier attempt was applied.
func (s *Hold) lastWritten(ctx context.Context, to *handoff, got engine.Answer, unsure error) error {
	switch {
	case got.Outcome == engine.Applied:
		return nil
	case unsure == nil:
		return s.lose(got)
	}
	img, err := s.read(ctx)
	switch {
	case err != nil:
		err = s.unknown("update", oneline.Join(unsure, err))
	case img != nil && img.Lock.FinishedBy(s.grant.ID):
		err = nil
	case provesNotApplied(img, s.grant):
		err = s.lose(engine.Answer{Image: img})
	default:
		err = s.unknown("update", unsure)
	}
	_ = s.release(attempt.Detached(ctx), to) // a late duplicate may have brought the id back
	return err
}

// deletion deletes the document, and the lock with it.
func (s *Hold) deletion() lastCommand {
	return lastCommand{
		name: "delete",
		send: func(ctx context.Context, _ *handoff, _ engine.Reading) (engine.Answer, error) {
			return s.commands.Delete(ctx, s.grant)
		},
		judge: s.deleted,
	}
}

// deleted is the verdict on a delete. After an attempt of unknown outcome the
// entry may be gone because an operator or an outside writer has removed it: a
// document that stands was not deleted, or was made anew.
func (s *Hold) deleted(ctx context.Context, _ *handoff, got engine.Answer, unsure error) error {
	if got.Outcome == engine.Lost && unsure != nil && s.last().Key == uuid.Nil {
		img, err := s.read(ctx)
		if img != nil || err != nil {
			return s.unknown("delete", oneline.Join(unsure, err))
		}
	}
	return s.removed(ctx, "delete", got, unsure)
}
