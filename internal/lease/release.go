package lease

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
)

// Release implements doclock.Lease.
func (h *Handle) Release(ctx context.Context) error { return engine.Raise(h.Unlock(ctx)) }

// Unlock is Release for goroutines that are not the caller's: it raises no panic of a
// command monitor of his.
func (h *Handle) Unlock(ctx context.Context) error {
	if engine.InTransaction(ctx) {
		return h.hold.inTransaction()
	}
	v, first := h.claim()
	if first {
		ctx := attempt.Detached(ctx)
		h.hold.ops.Go(func() {
			h.writing.lock()
			defer h.writing.unlock()
			h.leave(ctx, v)
		})
	}
	return h.Judged(h.await(ctx, v))
}

// Judged is an error of Release as a verdict at this moment: the lease's time may
// have ended since.
func (h *Handle) Judged(err error) error { return h.hold.judged(err) }

// claim claims the right to release this holder's part; only the first caller
// has it.
func (h *Handle) claim() (v *verdict, first bool) {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	if h.released != nil {
		return h.released, false
	}
	h.released = &verdict{done: make(chan struct{})}
	return h.released, true
}

// await waits for the verdict, for as long as the caller does. It waits for an attempt by
// itself if the caller's context had ended before the call, as in a defer.
func (h *Handle) await(ctx context.Context, v *verdict) error {
	if v.isSettled() {
		return v.err
	}
	caller, stop := h.callerContext(ctx)
	defer stop()
	left := caller.Done()
	if h.callerLeft(ctx) {
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), h.hold.engine.Attempt(h.hold.grant.TTL).Timeout)
		defer cancel()
		left = over.Done()
	}
	select {
	case <-v.done:
		return v.err
	case <-left:
		<-caller.Done()
		err := h.hold.gaveUp(caller)
		h.emitUnknownEnd(caller, v, err)
		return err
	}
}

// leave takes the holder out and settles the verdict. The holder has no command
// under way. If others stay, nothing is sent, and their commands are not waited for.
func (h *Handle) leave(ctx context.Context, v *verdict) {
	s := h.hold
	verdict, releases := s.depart(h)
	if !releases {
		v.unknown = v.unknown || errors.Is(verdict, doclock.ErrOutcomeUnknown) // of a downgrade, whose caller knows
		h.settle(ctx, v, verdict)
		return
	}
	s.renewing.lock()
	defer s.renewing.unlock()
	s.writing.lock()
	defer s.writing.unlock()
	to := s.handoff()
	err := s.release(ctx, to)
	h.settleAll(ctx, v, err)
	to.close(err)
}

// release sends the release and judges its answer. ctx has no end. The hold has
// one: after it the server lets others in without a release. A handoff that finds
// nothing is followed by a plain release, because the id may stand there with
// another fencing token. A lost hold is released too: a late duplicate may have
// brought its id back. The hold stays lost, whatever the server answers.
func (s *Hold) release(ctx context.Context, to *handoff) error {
	known := s.declaredLoss()
	// It is sent even if its caller has given up.
	ctx = engine.WithSending(ctx, s.sending(nil))
	s.giveUp() // before anything is sent
	first := s.engine.Clocks()
	var got engine.Answer
	unsure, err := s.settle(ctx, func(ctx context.Context) (err error) {
		got, err = s.releaseTo(ctx, to, first)
		return err
	})
	switch {
	case known != nil:
		return oneline.Join(known, engine.PanicIn(err))
	case err != nil && unsure == nil:
		return s.judged(s.failed("release", err))
	case err != nil:
		return s.unknown("release", unsure)
	default:
		return s.removed(ctx, "release", got, unsure)
	}
}

// releaseTo sends one attempt. Its answer says nothing of an earlier attempt.
func (s *Hold) releaseTo(ctx context.Context, to *handoff, first engine.Reading) (engine.Answer, error) {
	done, err := to.release(ctx, first)
	if done || err != nil {
		return engine.Answer{Outcome: engine.Released}, err
	}
	return s.commands.Release(ctx, s.last())
}

// removed is the verdict on a command that removes the entry from the
// document, and was answered.
func (s *Hold) removed(ctx context.Context, command string, got engine.Answer, unsure error) error {
	switch {
	case got.Outcome == engine.Released:
		return nil
	case unsure == nil:
		return s.lose(got)
	case s.last().Key != uuid.Nil:
		return s.taken(ctx, command, unsure)
	case s.left() <= 0:
		return s.unknown(command, unsure)
	}
	// Nobody but an earlier attempt can have removed it, or an operator.
	img := got.Image
	if img == nil && !got.Gone {
		var err error
		if img, err = s.read(ctx); err != nil {
			return s.unknown(command, oneline.Join(unsure, err))
		}
	}
	if img != nil && img.Lock.Broken >= s.grant.Fence {
		return s.unknown(command, fmt.Errorf("an operator has removed the entry, or a later one: %w", unsure))
	}
	return nil
}

// settle publishes the verdict on the part of a holder who sent no release.
func (h *Handle) settle(ctx context.Context, v *verdict, err error) {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	h.publish(ctx, v, "", err)
}

// settleAll publishes the verdict on the release of the whole hold. If the
// release was refused, the entry still stands, and a later call may try again.
func (h *Handle) settleAll(ctx context.Context, v *verdict, err error) {
	s := h.hold
	s.mu.Lock()
	defer s.mu.Unlock()
	if !h.publish(ctx, v, "", err) {
		return
	}
	if repeatable(err) {
		h.released = nil
		s.stands()
		return
	}
	s.become(gone)
}

// publish publishes the verdict, unless a caller has who has revoked the command. A
// lease that goes on has no event of its end. The hold is locked.
func (h *Handle) publish(ctx context.Context, v *verdict, how doclock.EventHow, err error) bool {
	if v.isSettled() {
		return false
	}
	if !repeatable(err) || h.over != nil {
		h.emitVerdict(ctx, v, how, err)
	}
	v.err = err
	close(v.done)
	return true
}

func (v *verdict) isSettled() bool {
	select {
	case <-v.done:
		return true
	default:
		return false
	}
}
