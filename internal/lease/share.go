package lease

import (
	"context"
	"sync"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// share is an entry that several holders of one process have in common. Each
// of them has a lease of its own, with the same id and token; under them all
// is the lease that was granted, which nobody has in hands. What is sent to the
// server is sent by that one, so that the writes of all holders are numbered
// in one row, and the last to leave gives the lock back.
type share struct {
	base *Handle

	mu      sync.Mutex // taken before a lease's
	holders int
	given   bool // the lock is being given back, for all of them: nobody joins any more
}

// Share is [Holds.New] for a tag that is shared: others may join the lease.
func (ls *Holds) Share(g engine.Grant, sent engine.Reading) *Handle {
	s := &share{base: ls.New(g, sent), holders: 1}
	ls.mu.Lock()
	if s.base.over.Err() == nil {
		ls.believed[g.ID] = s
	}
	ls.mu.Unlock()
	return s.lease()
}

// Join returns one more lease of an entry that is shared, without asking the
// server, or nil where that is not possible any more: the lock is being given
// away, or a third of its time has passed.
func (ls *Holds) Join(id uuid.UUID) *Handle {
	s := ls.shared(id)
	if s == nil || s.base.Remaining() < ls.engine.Lease(s.base.grant.Tag)*2/3 {
		return nil
	}
	return s.join()
}

// Look is a Join that asks the server, by a renewal. Its image tells whether
// somebody has come whom the tag respects; the lease must be released then. The
// error is [ErrLost] where the entry can't be joined any more.
func (ls *Holds) Look(ctx context.Context, id uuid.UUID, document bool) (l *Handle, img *engine.Image, err error) {
	s := ls.shared(id)
	if s == nil {
		return nil, nil, ErrLost
	}
	if l = s.join(); l == nil {
		return nil, nil, ErrLost
	}
	err = s.base.renewBy(ctx, func(ctx context.Context) (engine.Answer, error) {
		got, err := ls.engine.Look(ctx, s.base.grant, document)
		img = got.Image
		return got, err
	})
	if err != nil {
		_ = l.Release(context.Background())
		return nil, nil, err
	}
	return l, img, nil
}

func (ls *Holds) shared(id uuid.UUID) *share {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.believed[id]
}

// join is nil when the lock is being given back.
func (s *share) join() *Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given {
		return nil
	}
	s.holders++
	return s.lease()
}

// lease makes the lease of one more holder.
func (s *share) lease() *Handle {
	b := s.base
	l := &Handle{leases: b.leases, engine: b.engine, ops: b.ops, grant: b.grant, share: s, writing: newGate(), renewing: newGate()}
	l.over, l.stop = context.WithCancelCause(context.Background())
	b.follow(l)
	return l
}

// entry is the lease that stands in the document: the one under all of them
// where it is shared.
func (l *Handle) entry() *Handle {
	if l.share != nil {
		return l.share.base
	}
	return l
}

// ended implements follower: the belief of all holders ends with the entry's.
func (l *Handle) ended(cause error) { l.finish(cause) }

// leave takes a holder out. The last one gives the lock back, and so does
// whoever comes first after the belief has ended, for all of them: those who
// come later may have been there beside somebody else. Before the end nobody
// can have been let in.
func (s *share) leave(ctx context.Context, l *Handle) error {
	part := s.depart()
	l.finish(ErrReleased) // before anything is sent
	s.base.unfollow(l)
	switch part {
	case leftAfterAll:
		return ErrLost
	case leftLast:
		return s.giveBack(ctx)
	default:
		return nil
	}
}

// departure is what it means that a holder leaves.
type departure uint8

const (
	leftOthers   departure = iota // who hold the lock
	leftLast                      // and has to give the lock back, for all
	leftAfterAll                  // the lock was lost to it: it has been given back for all
)

// depart counts a holder out. It alone decides who gives the lock back, so that
// of those who leave at the same time one does, and each of the others learns
// whether it left before that or after.
func (s *share) depart() departure {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.given:
		return leftAfterAll
	case s.holders > 1 && s.base.Err() == nil:
		s.holders--
		return leftOthers
	default:
		s.given = true
		return leftLast
	}
}

// departAlone is depart for the only holder, and does nothing for one of several.
func (s *share) departAlone() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.given || s.holders > 1 {
		return false
	}
	s.given = true
	return true
}

// giveBack releases the lock. A release that was refused can be tried again,
// by the one who was to do it.
func (s *share) giveBack(ctx context.Context) error {
	err := s.base.Release(ctx)
	if s.base.given() == nil {
		s.mu.Lock()
		s.given = false
		s.mu.Unlock()
	}
	return err
}

// update writes for one of the holders, who leaves no earlier than it is
// answered.
func (s *share) update(ctx context.Context, u *engine.Update) error {
	b := s.base
	if err := b.enter(ctx, b.writing); err != nil {
		return err
	}
	defer b.writing.leave()
	if b.given() != nil { // by another holder, after its end
		return ErrLost
	}
	b.writes++
	return b.write(ctx, u, b.writes)
}

// writeAndLeave writes and takes a holder out, in one command: the others keep
// the lock, or there are none.
func (s *share) writeAndLeave(ctx context.Context, l *Handle, u *engine.Update) (err, released error) {
	if s.departAlone() {
		l.finish(ErrReleased) // before anything is sent
		s.base.unfollow(l)
		err = s.base.updateAndRelease(ctx, u)
		return err, s.giveBack(attempt.Detached(ctx)) // which has its answer
	}
	err = s.update(ctx, u)
	return err, s.leave(attempt.Detached(ctx), l)
}
