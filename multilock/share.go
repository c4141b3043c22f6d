package multilock

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
)

// trust is how long after an image a shared entry is joined unseen. Those whom
// the tag respects, and who have come since, wait longer by that time. As long as
// holders overlap, a process looks for them once in it.
const trust = 200 * time.Millisecond

// sharedEntry is one that others of this process may join.
type sharedEntry struct {
	id   uuid.UUID
	seen time.Duration // with nobody in the way of its tag, on the monotonic clock
	look chan struct{} // closed when the look that is under way is over, or nil
}

// checkShared refuses to share tags whose holders would not get along.
func checkShared(e *engine.Engine) error {
	var faults []error
	for _, tag := range e.Shared {
		if _, known := e.Rules()[tag]; !known {
			faults = append(faults, fmt.Errorf("%w: ShareInProcess is for %q, %s", doclock.ErrInvalidArgument, tag, unknownTag(e.Rules())))
		} else if reason := e.Rules().CheckShareable(tag); reason != nil {
			faults = append(faults, fmt.Errorf("%w: holders of %q can't share an entry: %w", doclock.ErrInvalidArgument, tag, reason))
		}
	}
	return oneline.Join(faults...)
}

// open lets others join what was granted: who stands in line, for they waited
// for this answer instead of taking places in the document; and who comes as
// long as nobody is seen in the tag's way.
func (l *line) open(a *acquisition) {
	if !a.shared {
		return
	}
	tag := a.request.Tag
	l.shared[tag] = sharedEntry{id: a.request.ID, seen: l.engine.Clocks().Mono}
	l.admit(tag)
	if l.crossed(tag) {
		delete(l.shared, tag)
	}
}

// crossed says that the picture shows somebody in the tag's way.
func (l *line) crossed(tag string) bool {
	if l.picture.image == nil {
		return false
	}
	blocking, _ := l.engine.InTheWay(l.picture.image, tag, nil)
	return len(blocking) > 0
}

// look closes the entries in whose tag's way the picture shows somebody.
func (l *line) look() {
	for tag, s := range l.shared {
		if l.crossed(tag) {
			delete(l.shared, tag)
		} else {
			s.seen = l.engine.Clocks().Mono
			l.shared[tag] = s
		}
	}
}

// close lets nobody join an entry any more.
func (l *line) close(id uuid.UUID) {
	for tag, s := range l.shared {
		if s.id == id {
			delete(l.shared, tag)
		}
	}
}

// sharing says that somebody here believes in an entry that may be joined.
func (l *line) sharing() bool {
	for _, s := range l.shared {
		if l.picture.leases.Valid(s.id) {
			return true
		}
	}
	return false
}

// share is a lease for who needs to ask nobody, or nil.
func (l *line) share(a *acquisition) *lease.Handle {
	s, open := l.shared[a.request.Tag]
	if !open || !a.shared || a.into != nil || l.engine.Clocks().Mono-s.seen > trust {
		return nil
	}
	return l.picture.leases.Join(s.id)
}

// admit lets waiters in who need to ask nobody. Where one can't be, none can.
func (l *line) admit(tag string) {
	t := l.tags[tag]
	if t == nil {
		return
	}
	for e := t.Front(); e != nil; {
		w := e.Value.(*waiter)
		e = e.Next() // before w is removed
		if w.state != asleep || w.ticket != nil || !w.a.shared || w.a.into != nil {
			continue
		}
		held := l.share(w.a)
		if held == nil {
			return
		}
		w.answer = answer{lease: held}
		l.set(w, answered)
		l.remove(w)
		w.wake()
	}
}

// gathers says that an acquire had better wait for the answer that another one
// of its tag gets.
func (l *line) gathers(a *acquisition) bool {
	_, open := l.shared[a.request.Tag]
	return a.shared && (a.into == nil || !open)
}

// joining is how an acquire may join an entry: it has a lease; or it looks at
// the entry with this id; or it waits until another one's look is over.
type joining struct {
	lease *lease.Handle
	id    uuid.UUID
	look  chan struct{} // of either look; nil for one that shows the document, and is nobody else's
}

// share tells how an acquire may join an entry, if it may. At most one look is
// under way for those who don't want the document.
func (q *queue) share(a *acquisition) joining {
	if !a.shared {
		return joining{}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	l := q.lines[a.document]
	if l == nil {
		return joining{}
	}
	s, open := l.shared[a.request.Tag]
	switch held := l.share(a); {
	case held != nil || !open:
		return joining{lease: held}
	case a.into != nil:
		return joining{id: s.id}
	case s.look != nil:
		return joining{look: s.look}
	default:
		s.look = make(chan struct{})
		l.shared[a.request.Tag] = s
		return joining{id: s.id, look: s.look}
	}
}

// looked takes in what a look has shown, and tells those who wait for it.
func (q *queue) looked(a *acquisition, look chan struct{}, img *engine.Image) {
	if look == nil {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	defer close(look)
	l := q.lines[a.document]
	if l == nil {
		return
	}
	if s := l.shared[a.request.Tag]; s.look == look {
		s.look = nil
		l.shared[a.request.Tag] = s
	}
	l.see(img, a.begun)
	l.judge()
}

// joined is a lease after another one's look, or nil.
func (q *queue) joined(a *acquisition) *lease.Handle {
	q.mu.Lock()
	defer q.mu.Unlock()
	if l := q.lines[a.document]; l != nil {
		return l.share(a)
	}
	return nil
}

// answered takes in what an acquire was answered that stood in no line.
func (q *queue) answered(a *acquisition, held *lease.Handle) {
	if !a.shared {
		return
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	document := a.document
	if a.seen != nil {
		document = key(a.locker.engine.Pin(a.seen))
	}
	l := q.line(document)
	l.see(a.seen, a.begun)
	if held != nil && !l.crossed(a.request.Tag) {
		l.entered(a, held)
	}
	l.judge()
	q.drop(l)
}

// join gets a lease of an entry that others of this process hold, in one
// command if any. There is neither a lease nor an error where nobody can be
// joined.
func (a *acquisition) join(ctx context.Context) (*lease.Handle, error) {
	q := a.locker.queue
	j := q.share(a)
	if j.id == uuid.Nil && j.look != nil {
		select {
		case <-j.look:
			return q.joined(a), nil
		case <-ctx.Done():
			return nil, attempt.Ended(ctx)
		}
	}
	if j.id == uuid.Nil {
		return j.lease, nil
	}
	got, gaveUp, err := run(ctx, a, a.locker.ops.Closing(), func() looked {
		got := a.look(ctx, j.id)
		q.looked(a, j.look, got.image)
		return got
	}, func(l looked, done func()) {
		l.give(a)
		a.end(done)
	})
	if err != nil { // nothing was sent
		q.looked(a, j.look, nil)
		return nil, err
	}
	if gaveUp != nil {
		a.gone = true
		return nil, gaveUp
	}
	if got.image != nil {
		a.seen = got.image
	}
	if got.lease == nil {
		return nil, got.conflict
	}
	if err := a.decode(got.image, got.lease); err != nil {
		return nil, err
	}
	return got.lease, nil
}

// looked is what became of a look at an entry.
type looked struct {
	lease    *lease.Handle
	image    *engine.Image
	conflict error
}

// give gives back the lease of a look that nobody waits for, or that may not
// join.
func (l looked) give(a *acquisition) {
	if l.lease != nil {
		a.locker.cleanedUp(l.lease.Release(context.Background()))
	}
}

// look asks whether an entry may be joined. Where that can't be told, the
// acquire itself will tell.
func (a *acquisition) look(ctx context.Context, id uuid.UUID) looked {
	held, img, err := a.locker.leases.Look(ctx, id, a.into != nil)
	if err != nil {
		return looked{}
	}
	got := looked{lease: held, image: img}
	if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) > 0 {
		got.give(a)
		return looked{image: img, conflict: a.conflict(img, nil)}
	}
	return got
}
