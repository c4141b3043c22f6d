package multilock_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
)

// MaxWait ends the wait. The error names the holders, and no entry stays behind.
func TestMaxWaitEndsTheWait(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"one try": 0, "a while": 100 * time.Millisecond} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			l, others := p.locker(p.coll, relations.Fair()), p.locker(p.coll, relations.Fair())
			holder := p.try(others, "read")
			begun := time.Now()
			_, err := l.Acquire(context.Background(), flowers, "write", doclock.MaxWait(wait))
			if took := time.Since(begun); took < wait {
				t.Errorf("it waited for %v", took)
			}
			p.want(err, doclock.ErrNotAcquired, doclock.ErrConflict)
			p.wantNot(err, context.DeadlineExceeded)
			if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != holder.ID() {
				t.Errorf("in the way: %+v", c.Holders)
			}
			p.rest(l)
			p.wantEntries(holder)
		})
	}
}

// MaxWait(0) sends one command, and takes no place in the document queue.
func TestMaxWaitOfZeroIsOneTry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	holder := p.try(p.locker(p.coll, relations.Fair()), "read")
	w.commands()
	_, err := l.Acquire(context.Background(), flowers, "write", doclock.MaxWait(0))
	p.want(err, doclock.ErrNotAcquired, doclock.ErrConflict)
	p.wantEntries(holder)
	if n := w.count(); n != 1 {
		t.Errorf("%d commands", n)
	}
}

// MaxWait bounds neither the lease nor the work under it.
func TestMaxWaitBoundsNothingElse(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	const wait = 50 * time.Millisecond
	err := l.Do(context.Background(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
		time.Sleep(2 * wait)
		if _, limited := ctx.Deadline(); limited || ctx.Err() != nil || lease.Err() != nil {
			t.Errorf("fn's context is bounded: %v, it ended with %v, the lease with %v", limited, ctx.Err(), lease.Err())
		}
		return nil
	}, doclock.MaxWait(wait))
	if err != nil {
		t.Error(err)
	}
}

func TestMaxWaitIsRefused(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	for name, call := range map[string]func() error{
		"Acquire, below 0": func() error {
			_, err := l.Acquire(t.Context(), flowers, "write", doclock.MaxWait(-1))
			return err
		},
		"TryAcquire": func() error {
			_, err := l.TryAcquire(t.Context(), flowers, "write", doclock.MaxWait(time.Second))
			return err
		},
		"Enqueue": func() error {
			_, err := l.Enqueue(t.Context(), flowers, "write", doclock.MaxWait(time.Second))
			return err
		},
	} {
		fault{doclock.ErrInvalidArgument, []string{"MaxWait"}}.check(t, name, call())
	}
	if sent := w.commands(); len(sent) != 0 {
		t.Errorf("sent %v", sent)
	}
}

// If Do's function never ran, the error says so, however the wait ended. If it
// ran, the error doesn't say so.
func TestDoSaysWhetherItsFunctionRan(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, others := p.locker(p.coll, relations.Fair()), p.locker(p.coll, relations.Fair())
	holder := p.try(others, "read")
	ended, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	for name, c := range map[string]struct {
		ctx context.Context
		opt doclock.AcquireOption
		tag string
	}{
		"deadline": {ended, doclock.MaxWait(time.Hour), "write"}, "max wait": {t.Context(), doclock.MaxWait(50 * time.Millisecond), "write"},
		"one try": {t.Context(), doclock.MaxWait(0), "write"}, "unknown tag": {t.Context(), doclock.MaxWait(0), "skim"},
	} {
		err := l.Do(c.ctx, flowers, c.tag, func(context.Context, *doclock.Lease) error { t.Errorf("%s: it ran", name); return nil }, c.opt)
		if !errors.Is(err, doclock.ErrNotAcquired) || errors.Is(err, doclock.ErrOutcomeUnknown) {
			t.Errorf("%s: %v", name, err)
		}
	}
	p.release(holder)
	for name, fn := range map[string]func(*doclock.Lease) error{
		"refused": func(*doclock.Lease) error { return errors.New("refused") },
		"lost":    func(*doclock.Lease) error { p.erase("write"); return nil },
	} {
		err := l.Do(t.Context(), flowers, "write", func(_ context.Context, lease *doclock.Lease) error { return fn(lease) })
		if err == nil || errors.Is(err, doclock.ErrNotAcquired) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The errors of callers with tiny deadlines on a held document name the holder.
// Few of these callers have an answer of their own; the others use what their
// process knows.
func TestAWaitThatRanOutNamesTheHolder(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	holder := p.try(p.locker(p.coll, relations.Exclusive()), "write")
	try := func() error {
		ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond+rand.N(19*time.Millisecond))
		defer cancel()
		_, err := l.Acquire(ctx, flowers, "write")
		return err
	}
	p.eventually("the process knows the holder", func() bool { return errors.Is(try(), doclock.ErrConflict) })
	var named, unnamed atomic.Int64
	var callers sync.WaitGroup
	end := time.Now().Add(2 * time.Second)
	for range 50 {
		callers.Go(func() {
			for time.Now().Before(end) {
				switch err := try(); {
				case errors.Is(err, doclock.ErrConflict):
					named.Add(1)
				case errors.Is(err, doclock.ErrNotAcquired):
					unnamed.Add(1)
				default:
					t.Errorf("%v", err)
				}
			}
		})
	}
	callers.Wait()
	t.Logf("%d errors name the holder, %d do not", named.Load(), unnamed.Load())
	if named.Load() < 9*unnamed.Load() {
		t.Errorf("%d of %d errors do not name the holder", unnamed.Load(), named.Load()+unnamed.Load())
	}
	p.rest(l)
	p.wantEntries(holder)
}
