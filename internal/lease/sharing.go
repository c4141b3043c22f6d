package lease

import (
	"context"
	"fmt"
	"slices"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// This file is about holds that several holders share.

// Reserve keeps a part of a shared hold for whoever takes it next. It sends nothing. It
// is false if nobody can join any more: the lock is being released, or a third of its
// time has passed.
func (hs *Holds) Reserve(id uuid.UUID) bool {
	s := hs.find(id)
	if s == nil || s.remaining() < s.grant.TTL*2/3 {
		return false
	}
	h := s.join()
	if h == nil {
		return false
	}
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h.next, hs.reserved[id] = hs.reserved[id], h
	return true
}

// Take is a part that was reserved, or nil.
func (hs *Holds) Take(id uuid.UUID) *Handle {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	h := hs.reserved[id]
	switch {
	case h == nil:
	case h.next == nil:
		delete(hs.reserved, id)
	default:
		hs.reserved[id], h.next = h.next, nil
	}
	return h
}

// Look is one more holder's part, after a renewal. If its image has a new entry that
// the tag respects, the caller must release the lease. The error is [doclock.ErrLost] if the
// hold can't be joined any more.
func (hs *Holds) Look(ctx context.Context, id uuid.UUID, document bool) (h *Handle, img *engine.Image, err error) {
	s := hs.find(id)
	if s != nil {
		h = s.join()
	}
	if h == nil {
		return nil, nil, doclock.ErrLost
	}
	err = s.renewWith(ctx, func(ctx context.Context, g engine.Grant) (engine.Answer, error) {
		got, err := hs.commands.Look(ctx, g, document)
		img = got.Image
		return got, err
	})
	if err != nil {
		h.emitDiscarded(h.Unlock(context.Background()))
		return nil, nil, err
	}
	return h, img, nil
}

// join is one more holder's part, or nil if the lock is not shared, or is being
// released.
func (s *Hold) join() *Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.shared || s.phase != held {
		return nil
	}
	h := &Handle{hold: s, over: s.cause}
	s.holders = append(s.holders, h)
	return h
}

// several says that more than one holder has the lock.
func (s *Hold) several() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.holders) > 1 && s.phase == held
}

// depart takes a holder out, and is the verdict for that holder. The last one releases
// the lock. After the end of the validity the first one does, for all: the server may
// have let somebody in beside the others. depart alone decides who releases. So of
// holders who leave together exactly one does, and the others learn whether they left
// before.
func (s *Hold) depart(h *Handle) (verdict error, releases bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.phase == replaced:
		return s.verdict, false
	case s.phase == ending, s.phase == gone: // the lock has been released for all
		s.remove(h)
		return s.check(), false
	case len(s.holders) > 1 && s.check() == nil:
		s.remove(h)
		h.end(s.released())
		return nil, false
	default:
		s.become(ending)
		if s.shared { // its part ends as the others' did; an exclusive hold's ends when the release is sent
			h.end(s.released())
		}
		return nil, true
	}
}

func (s *Hold) remove(h *Handle) {
	s.holders = slices.DeleteFunc(s.holders, func(other *Handle) bool { return other == h })
}

// writeAndLeave writes, and takes the holder out.
func (h *Handle) writeAndLeave(ctx context.Context, u *engine.Update) error {
	var v *verdict
	in := h.isIn()
	if in {
		v, in = h.claim()
	}
	if !in {
		h.writing.unlock()
		return h.hold.released()
	}
	err := h.run(ctx, func(ctx context.Context) error {
		defer h.writing.unlock()
		err := h.hold.write(ctx, u)
		if repeatable(err) && engine.Revoke(ctx) { // nothing was sent
			h.stay(ctx, v, err)
			return err
		}
		h.emitUnknownEnd(ctx, v, err)
		h.leave(attempt.Detached(ctx), v)
		return besides(err, v.err)
	})
	if revoked(err) {
		h.stay(ctx, v, err)
	}
	h.emitUnknownEnd(ctx, v, err)
	return err
}

// stay takes one of several holders back in whose last command was not sent.
func (h *Handle) stay(ctx context.Context, v *verdict, err error) {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	if h.publish(ctx, v, "", err) {
		h.reopen(v)
	}
}

// ofSeveral refuses a command for an entry that other local holders have.
func (s *Hold) ofSeveral(command string) error {
	return fmt.Errorf("%w: %s: %v: others of this process share the entry; give this command under a tag that excludes them", doclock.ErrInvalidArgument, command, s)
}
