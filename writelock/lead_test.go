package writelock_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// All candidates come to lead, one at a time, and Lead returns what fn returns.
func TestLeadersComeOneAfterTheOther(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	fault := errors.New("fn's own")
	var leading atomic.Int32
	var all sync.WaitGroup
	for i := range 6 {
		l := p.locker(p.Hand)
		all.Go(func() {
			var returned error
			if i%2 == 0 {
				returned = fault
			}
			err := l.Lead(fixture.Bounded(p), order, func(ctx context.Context, lease doclock.Lease) error {
				if n := leading.Add(1); n != 1 || ctx.Err() != nil {
					t.Errorf("%d lead, the context: %v", n, ctx.Err())
				}
				if !p.stored().Lock.Tags.Write[0].of(lease) {
					t.Error("the document has another leader")
				}
				leading.Add(-1)
				return returned
			})
			if !errors.Is(err, returned) {
				t.Errorf("Lead returned %v, and fn %v", err, returned)
			}
		})
	}
	all.Wait()
	p.free()
}

// A leader whose HoldAtMost is over campaigns again.
func TestLeadCampaignsAgainAfterItsLimit(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		p := newPlace(t)
		l := p.locker(p.Hand)
		terms, begun := 0, time.Now()
		err := l.Lead(p.Context(), order, func(ctx context.Context, lease doclock.Lease) error {
			if terms++; terms == 3 {
				return nil
			}
			<-ctx.Done()
			p.want(context.Cause(ctx), doclock.ErrLost)
			return context.Cause(ctx)
		}, doclock.HoldAtMost(time.Minute))
		if passed := time.Since(begun); err != nil || terms != 3 || passed.Round(time.Second) != 2*time.Minute {
			t.Errorf("Lead returned %v after %d terms and %v", err, terms, passed)
		}
	})
}

// After a loss Lead campaigns again, whatever fn returns then.
func TestLeadCampaignsAgainAfterALoss(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		p := newPlace(t)
		l := p.locker(p.Hand, doclock.TTL(time.Second))
		erase := func() { p.Change(bson.M{"$unset": bson.M{"lock.tags": 1}}) }
		var terms []int64
		err := l.Lead(fixture.Bounded(p), order, func(ctx context.Context, lease doclock.Lease) error {
			terms = append(terms, lease.Fence())
			switch len(terms) {
			case 1:
				erase()
				<-ctx.Done()
				p.want(context.Cause(ctx), doclock.ErrLost)
				return context.Cause(ctx)
			case 2:
				erase()
				<-ctx.Done()
				return errors.New("which is ignored")
			case 3:
				erase() // which the release finds
				return nil
			default:
				return nil
			}
		})
		if err != nil || len(terms) != 4 || terms[0] >= terms[1] || terms[1] >= terms[2] || terms[2] >= terms[3] {
			t.Errorf("Lead returned %v after the terms %v", err, terms)
		}
		p.free()
	})
}

// Lead's error speaks of the last term: nothing ran only if there was none, and a loss is told until the next term.
func TestLeadSpeaksOfItsLastTerm(t *testing.T) {
	t.Parallel()
	verdicts := []error{doclock.ErrNotAcquired, doclock.ErrLost, doclock.ErrOutcomeUnknown}
	for name, c := range map[string]struct {
		terms   []func(p *place, others *writelock.Locker, end context.CancelFunc)
		verdict error
		cause   error
	}{
		"no term":                {nil, doclock.ErrNotAcquired, doclock.ErrConflict},
		"another leads now":      {[]func(*place, *writelock.Locker, context.CancelFunc){takeOver}, doclock.ErrLost, context.Canceled},
		"the document is gone":   {[]func(*place, *writelock.Locker, context.CancelFunc){remove}, doclock.ErrLost, doclock.ErrNotFound},
		"ctx ended the next one": {[]func(*place, *writelock.Locker, context.CancelFunc){erase, cancel}, nil, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			mongotest.Virtual(t, func(t *testing.T) {
				p := newPlace(t)
				l, others := p.locker(p.Hand), p.locker(p.Hand, doclock.TTL(24*time.Hour))
				ctx, end := context.WithTimeout(t.Context(), time.Hour)
				defer end()
				if c.terms == nil {
					p.try(others)
				}
				led := 0
				err := l.Lead(ctx, order, func(ctx context.Context, _ doclock.Lease) error {
					c.terms[led](p, others, end)
					led++
					<-ctx.Done()
					return ctx.Err()
				})
				p.want(err, c.cause)
				for _, v := range verdicts {
					if errors.Is(err, v) != (v == c.verdict) {
						t.Errorf("after %d terms Lead returned %v", led, err)
					}
				}
			})
		})
	}
}

func erase(p *place, _ *writelock.Locker, _ context.CancelFunc) {
	p.Change(bson.M{"$unset": bson.M{"lock.tags": 1}})
}

func takeOver(p *place, others *writelock.Locker, end context.CancelFunc) {
	erase(p, others, end)
	p.try(others)
	time.AfterFunc(time.Minute, end)
}

func remove(p *place, _ *writelock.Locker, _ context.CancelFunc) {
	if _, err := p.Hand.DeleteOne(p.Context(), order); err != nil {
		p.Error(err)
	}
}

func cancel(_ *place, _ *writelock.Locker, end context.CancelFunc) { end() }

func never(t *testing.T) func(context.Context, doclock.Lease) error {
	return func(context.Context, doclock.Lease) error {
		t.Error("fn was called")
		return nil
	}
}

func TestLeadRefusesBadInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l, closed := p.locker(p.Hand), p.locker(p.Hand)
	if err := closed.Close(fixture.Bounded(p)); err != nil {
		t.Fatal(err)
	}
	ctx := fixture.Bounded(p)
	p.want(l.Lead(ctx, nil, never(t)), doclock.ErrInvalidArgument, doclock.ErrNotAcquired)
	p.want(l.Lead(ctx, order, never(t), nil), doclock.ErrInvalidArgument)
	opts := append(make([]doclock.AcquireOption, 0, 2), doclock.MaxWait(time.Second))
	if p.want(l.Lead(ctx, order, never(t), opts...), doclock.ErrInvalidArgument); opts[:2][1] != nil {
		t.Error("Lead has written behind its caller's options")
	}
	p.want(l.Lead(ctx, bson.M{"_id": 2}, never(t)), doclock.ErrNotFound)
	p.want(l.Lead(ctx, bson.M{"_id": 1, "$unknown": 1}, never(t)), doclock.ErrNotAcquired)
	p.want(closed.Lead(ctx, order, never(t)), doclock.ErrClosed)
	p.Change(bson.M{"$set": bson.M{"lock": "mine"}})
	p.want(l.Lead(ctx, order, never(t)), doclock.ErrForeignLock)
	if ctx.Err() != nil {
		t.Error("one of them campaigned")
	}
}

// each is an option that has a function called by each acquire.
type each struct{ apply func() error }

func (e each) ApplyAcquire(*engine.AcquireConfig) error { return e.apply() }

// away is the error of a server that can't be reached.
type away struct{}

func (away) Error() string { return "no server" }

func (away) As(target any) bool {
	failure, ok := target.(**engine.Failure)
	if ok {
		*failure = &engine.Failure{Nothing: true, Passes: true}
	}
	return ok
}

// A campaign that ends after an error that may pass, or in the pause that
// follows, has both errors.
func TestLeadEndsWithItsContextBetweenTwoTries(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.Hand)
	for _, after := range []time.Duration{0, 100 * time.Millisecond} {
		synctest.Test(t, func(t *testing.T) {
			cause := errors.New("the user has left")
			ctx, cancel := context.WithCancelCause(t.Context())
			begun := time.Now()
			err := l.Lead(ctx, order, never(t), each{apply: func() error {
				if after == 0 {
					cancel(cause)
				} else {
					time.AfterFunc(after, func() { cancel(cause) })
				}
				return away{}
			}})
			for _, is := range []error{doclock.ErrNotAcquired, context.Canceled, cause, away{}} {
				if !errors.Is(err, is) {
					t.Errorf("after %v: %v is no %v", after, err, is)
				}
			}
			if took := time.Since(begun); took != after {
				t.Errorf("it returned after %v, want %v", took, after)
			}
		})
	}
}

// Close ends a leader's context at once, and waits for its function.
func TestCloseEndsALeadersTerm(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.Hand)
	begun, returned := make(chan struct{}), false
	led := make(chan error, 1)
	go func() {
		led <- l.Lead(context.Background(), order, func(ctx context.Context, _ doclock.Lease) error {
			close(begun)
			<-ctx.Done()
			returned = true
			return context.Cause(ctx)
		})
	}()
	<-begun
	p.want(l.Close(fixture.Bounded(p)))
	if !returned {
		p.Error("Close did not wait for the function")
	}
	p.want(<-led, doclock.ErrClosed)
}
