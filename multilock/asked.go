package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
)

// asked is what a call of TryAcquire, Enqueue, Acquire or Resume asks for. It doesn't
// change from the first command on: a command that outlives its caller reads it, too.
type asked struct {
	locker   *Locker
	filter   engine.Filter
	document string         // the key of its wait queue, if the filter names it
	lane     string         // whose commands are bounded together: the document's, or the filter's
	request  engine.Request // an acquire's has no id yet
	shared   bool           // it may join an entry of another holder of this process
	begun    time.Duration
	into     []any // what the document is decoded into
	maxWait  *time.Duration
	skip     bool // it takes any document that matches and is free
	leads    bool // it is a Lead's: Close ends its function at once
	bounds   engine.Attempts
	holding  []*lease.Handle // what the context of the call holds
	observed *observed       // or nil
	silence  *silence
}

// silence is why an acquire has no answer: its last attempt had none, or waits for one.
// So a caller who leaves is told.
type silence struct {
	mu    sync.Mutex
	sent  time.Time // when the attempt began that is under way, or zero
	ended error     // how the last one ended, or nil if it was answered
}

// during sends an attempt.
func (s *silence) during(ctx context.Context, send func(context.Context) error) error {
	s.mu.Lock()
	s.sent = time.Now()
	s.mu.Unlock()
	err := send(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent, s.ended = time.Time{}, err
	return err
}

// why is an error, or nil if the last attempt was answered.
func (s *silence) why() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.ended != nil:
		return explain("acquire", s.ended)
	case !s.sent.IsZero():
		return fmt.Errorf("doclock: acquire: no answer for %v: %w", time.Since(s.sent).Round(time.Millisecond), os.ErrDeadlineExceeded)
	default:
		return nil
	}
}

// begin checks an acquire's arguments; nothing is sent yet.
func (l *Locker) begin(ctx context.Context, filter any, tag string, opts []doclock.AcquireOption) (*asked, error) {
	if _, known := l.engine.Rules()[tag]; !known {
		return nil, fmt.Errorf("%w: unknown tag %q (tags: %s)", doclock.ErrInvalidArgument, tag, strings.Join(l.engine.Rules().Tags(), ", "))
	}
	cfg, err := acquireConfig(opts)
	if err != nil {
		return nil, err
	}
	parse := l.engine.ParseFilter
	if cfg.SkipLocked {
		parse = l.engine.ParseAny
	}
	f, err := parse(filter)
	if err != nil {
		return nil, fmt.Errorf("%w: filter: %w", doclock.ErrInvalidArgument, err)
	}
	if l.engine.Upsert && f.Pin == nil {
		return nil, fmt.Errorf("%w: with Upsert the filter must demand an equal _id at its top level, and in a sharded collection equal fields of the shard key", doclock.ErrInvalidArgument)
	}
	if cfg.SkipLocked && l.engine.Upsert {
		return nil, fmt.Errorf("%w: SkipLocked looks for documents that exist; give it to a Locker without Upsert", doclock.ErrInvalidArgument)
	}
	terms, err := l.termsOf(tag, cfg.Terms)
	if err != nil {
		return nil, err
	}
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	a := asked{
		locker:  l,
		request: engine.Request{Tag: tag, Document: cfg.Into != nil, Terms: terms},
		begun:   l.queues.Now(),
		into:    targets(cfg),
		maxWait: cfg.MaxWait,
		skip:    cfg.SkipLocked,
		leads:   cfg.Leads,
		bounds:  l.engine.Attempt(l.engine.LeaseBy(tag, terms)),
		holding: lease.HeldBy(ctx),
		silence: new(silence),
	}
	all := a.of(f.Sorted(cfg.Sort))
	all.observed = l.observed(ctx, all)
	return all, nil
}

// acquireConfig reads the options of one acquire, up to the first fault.
func acquireConfig(opts []doclock.AcquireOption) (cfg engine.AcquireConfig, err error) {
	for i, opt := range opts {
		if opt == nil {
			return cfg, nilOption(i)
		}
		if err := opt.ApplyAcquire(&cfg); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

// termsOf are the terms of an acquire, with its Locker's where it has none.
func (l *Locker) termsOf(tag string, t engine.Terms) (engine.Terms, error) {
	shared := slices.Contains(l.engine.Shared, tag)
	switch {
	case shared && t.Least > 0:
		return t, holdOfSeveral("HoldAtLeast", tag)
	case shared && t.Most > 0:
		return t, holdOfSeveral("HoldAtMost", tag)
	case t.Most == 0:
		t.Most = l.engine.Most
	}
	if t.Most > 0 && t.Least > t.Most {
		return t, fmt.Errorf("%w: HoldAtLeast is %v and HoldAtMost is %v; a lease can't be held for less than it keeps others out", doclock.ErrInvalidArgument, t.Least, t.Most)
	}
	return t, nil
}

// holdOfSeveral refuses an option for a shared tag: it would be of the entry, and
// so of all holders.
func holdOfSeveral(option, tag string) error {
	return fmt.Errorf("%w: %s for %q, whose holders share an entry (ShareInProcess); give it for a tag that is not shared", doclock.ErrInvalidArgument, option, tag)
}

func nilOption(i int) error {
	return fmt.Errorf("%w: option %d is nil; leave it out", doclock.ErrInvalidArgument, i)
}

// open refuses a call that can't begin: in a transaction, after Close, or after
// the end of ctx.
func (l *Locker) open(ctx context.Context) error {
	switch {
	case engine.InTransaction(ctx):
		return errInTransaction
	case l.closing():
		return l.closed
	case ctx.Err() != nil:
		return attempt.Ended(ctx)
	default:
		return nil
	}
}

// targets are what the document is decoded into.
func targets(cfg engine.AcquireConfig) []any {
	if cfg.Into == nil {
		return nil
	}
	return []any{cfg.Into}
}

// tries says that the call takes an attempt's time, and no more.
func (a *asked) tries() bool { return a.maxWait != nil && *a.maxWait == 0 }

// refuse refuses options that a call has no use for.
func (a *asked) refuse(call string, ticket bool) error {
	switch {
	case a.maxWait != nil:
		return fmt.Errorf("%w: %s doesn't wait; give MaxWait to Acquire or Do", doclock.ErrInvalidArgument, call)
	case a.skip && ticket:
		return fmt.Errorf("%w: %s takes a place in the queue of one document; give SkipLocked to TryAcquire, Acquire or Do", doclock.ErrInvalidArgument, call)
	default:
		return nil
	}
}

// of is what the call asks for of the documents that this filter finds, which are
// some of those that the call's own filter finds.
func (a asked) of(f engine.Filter) *asked {
	a.filter, a.document = f, ""
	if f.Pin != nil {
		a.document = waitqueue.Key(f.Pin)
	}
	if a.lane = a.document; a.lane == "" {
		a.lane = f.Key()
	}
	a.shared = f.Exact && a.request.Terms == (engine.Terms{}) && slices.Contains(a.locker.engine.Shared, a.request.Tag)
	a.observed.names(documentOf(f.Pin))
	return &a
}

// by is the request for an entry with this id.
func (a *asked) by(id uuid.UUID) engine.Request {
	r := a.request
	r.ID = id
	return r
}

// queuedBy is that request as the wait queue takes it.
func (a *asked) queuedBy(id uuid.UUID, late func(*waitqueue.Waiter, waitqueue.Step)) waitqueue.Request {
	return waitqueue.Request{
		Request: a.by(id), Exact: a.filter.Exact, Shared: a.shared, Begun: a.begun, Late: late,
		Nested: slices.ContainsFunc(a.holding, a.isOf),
	}
}

// failed makes the error of an acquire. If its context, MaxWait or Close has ended
// it, the error names the holders in the way, by the last conflict or else by
// what this process knows. If no server can be reached, or the last attempt has no
// answer, it says so.
func (a *asked) failed(ctx context.Context, err, last error) error {
	if endedBy(ctx, err) {
		if last == nil && !errors.Is(err, doclock.ErrConflict) {
			last = a.known()
		}
		err = oneline.Join(err, last, cmp.Or(a.locker.engine.Unreachable(), a.silence.why()))
	}
	return notAcquired(err)
}

// known is the conflict that the wait queue's view of the document shows for the
// acquire, or nil without a view.
func (a *asked) known() error {
	img := a.locker.queues.View(a.document)
	if img == nil {
		return nil
	}
	if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) == 0 {
		return nil
	}
	return a.conflict(img, nil)
}

// deliver gives the caller the document of a lease, which is released if that fails.
func (a *asked) deliver(img *engine.Image, held *lease.Handle, err error) (*lease.Handle, error) {
	if held == nil {
		return nil, err
	}
	err = a.locker.decode(img, a.into, func() { a.locker.cleanup.release(context.Background(), a.request, held, nil) })
	if err != nil {
		return nil, err
	}
	return held, nil
}

// decode gives the caller the document, in the caller's own goroutine: a
// command whose caller gave up must not write into the caller's memory. If it can't
// be decoded, or the caller's own decoding panics, failed is called.
func (l *Locker) decode(img *engine.Image, targets []any, failed func()) error {
	decoded := false
	defer func() {
		if !decoded { // or the caller's code has panicked
			failed()
		}
	}()
	for _, into := range targets {
		if err := l.engine.Decode(img, into); err != nil {
			return oneline.Because(fmt.Errorf("doclock: decode the document into a %T", into), err)
		}
	}
	decoded = true
	return nil
}
