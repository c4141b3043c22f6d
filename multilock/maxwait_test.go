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
// MaxWait(0) sends one command, and takes no place in the document queue.
func TestMaxWaitEndsTheWait(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"one try": 0, "a while": time.Minute} {
		virtually(t, name, func(p *place) {
			coll, w := p.watched()
			l := p.locker(coll, relations.Fair())
			others := p.locker(p.coll, relations.Fair(), doclock.TTL(time.Hour))
			holder := p.try(others, "read")
			begun := time.Now()
			_, err := l.Acquire(context.Background(), flowers, "write", doclock.MaxWait(wait))
			if took := time.Since(begun); took != wait || wait == 0 && w.Count() != 1 {
				p.Errorf("it waited for %v, with %d commands", took, w.Count())
			}
			p.want(err, doclock.ErrNotAcquired, doclock.ErrConflict)
			p.wantNot(err, context.DeadlineExceeded)
			if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != holder.ID() {
				p.Errorf("in the way: %+v", c.Holders)
			}
			p.rest(l)
			p.wantEntries(holder)
		})
	}
}

// MaxWait bounds neither the lease nor the work under it.
func TestMaxWaitBoundsNothingElse(t *testing.T) {
	virtual(t, func(p *place) {
		const wait = 50 * time.Millisecond
		ok(p, p.plain(relations.Fair()).Do(context.Background(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
			time.Sleep(2 * wait)
			if _, limited := ctx.Deadline(); limited || ctx.Err() != nil || lease.Err() != nil {
				p.Errorf("fn's context is bounded: %v, it ended with %v, the lease with %v", limited, ctx.Err(), lease.Err())
			}
			return nil
		}, doclock.MaxWait(wait)))
	})
}

// If Do's function never ran, the error says so, however the wait ended.
func TestDoSaysThatItsFunctionDidNotRun(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Fair())
		p.try(p.locker(p.coll, relations.Fair(), doclock.TTL(time.Hour)), "read")
		for name, c := range map[string]struct {
			opt doclock.AcquireOption
			tag string
			is  error
		}{
			"deadline":    {doclock.MaxWait(time.Hour), "write", context.DeadlineExceeded},
			"max wait":    {doclock.MaxWait(time.Second), "write", doclock.ErrConflict},
			"one try":     {doclock.MaxWait(0), "write", doclock.ErrConflict},
			"unknown tag": {doclock.MaxWait(0), "skim", doclock.ErrInvalidArgument},
		} {
			ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
			err := l.Do(ctx, flowers, c.tag, func(context.Context, *doclock.Lease) error { p.Errorf("%s: it ran", name); return nil }, c.opt)
			cancel()
			p.wantVerdict(name, err, doclock.ErrNotAcquired)
			p.want(err, c.is)
		}
	})
}

// The errors of callers with tiny deadlines on a held document name the holder.
// Few of these callers have an answer of their own; the others use what their
// process knows.
func TestAWaitThatRanOutNamesTheHolder(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Exclusive())
		p.try(p.locker(p.coll, relations.Exclusive()), "write")
		try := func() error {
			ctx, cancel := context.WithTimeout(context.Background(), time.Millisecond+rand.N(19*time.Millisecond))
			defer cancel()
			_, err := l.Acquire(ctx, flowers, "write")
			return err
		}
		p.eventually("the process knows the holder", func() bool { return errors.Is(try(), doclock.ErrConflict) })
		var named, unnamed atomic.Int64
		var callers sync.WaitGroup
		for range 50 {
			callers.Go(func() {
				for range 20 {
					if errors.Is(try(), doclock.ErrConflict) {
						named.Add(1)
					} else {
						unnamed.Add(1)
					}
				}
			})
		}
		callers.Wait()
		if named.Load() < 9*unnamed.Load() {
			p.Errorf("%d of %d errors do not name the holder", unnamed.Load(), named.Load()+unnamed.Load())
		}
	})
}
