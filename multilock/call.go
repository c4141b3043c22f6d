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

// call is what a call of TryAcquire, Enqueue, Acquire, Do or Resume asks for. It doesn't
// change once it is under way: the goroutine that owns the acquire reads it, and so does
// the caller.
type call struct {
	locker   *Locker
	filter   engine.Filter
	document string         // the key of its wait queue, if the filter names it
	lane     string         // whose commands are bounded together: the document's, or the filter's
	request  engine.Request // without an id
	begun    time.Duration
	into     []any // what the document is decoded into
	maxWait  *time.Duration
	skip     bool // it takes any document that matches and is free
	leads    bool // it is a Lead's: Close ends its function at once
	alone    bool // it shares no lease with others
	bounds   engine.Attempts
	holding  []*lease.Lease // what the context of the call holds
	observed *observed      // or nil
	progress *progress
}

// progress is what a caller is told who leaves: the last conflict, and why the last
// attempt has no answer.
type progress struct {
	mu       sync.Mutex
	conflict error
	sent     time.Time // when the attempt began that is under way, or zero
	ended    error     // how the last one ended, or nil if it was answered
}

// refused notes a conflict.
func (p *progress) refused(conflict error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conflict = conflict
}

// during sends an attempt.
func (p *progress) during(ctx context.Context, send func(context.Context) error) error {
	p.mu.Lock()
	p.sent = time.Now()
	p.mu.Unlock()
	err := send(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent, p.ended = time.Time{}, err
	return err
}

// told are the last conflict, and why the last attempt has no answer; both may be nil.
func (p *progress) told() (conflict, silence error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.ended != nil:
		silence = explain("acquire", p.ended)
	case !p.sent.IsZero():
		silence = fmt.Errorf("doclock: acquire: no answer for %v: %w", time.Since(p.sent).Round(time.Millisecond), os.ErrDeadlineExceeded)
	}
	return p.conflict, silence
}

// begin checks an acquire's arguments; nothing is sent yet.
func (l *Locker) begin(ctx context.Context, filter any, tag string, opts []doclock.AcquireOption) (*call, error) {
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
	c := call{
		locker:   l,
		request:  engine.Request{Tag: tag, Document: cfg.Into != nil, Terms: terms},
		begun:    l.queues.Now(),
		into:     targets(cfg),
		maxWait:  cfg.MaxWait,
		skip:     cfg.SkipLocked,
		leads:    cfg.Leads,
		bounds:   l.engine.Attempt(l.engine.LeaseBy(tag, terms)),
		holding:  lease.HeldBy(ctx),
		progress: new(progress),
	}
	all := c.of(f.Sorted(cfg.Sort))
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
func (c *call) tries() bool { return c.maxWait != nil && *c.maxWait == 0 }

// refuse refuses options that a call has no use for.
func (c *call) refuse(call string, ticket bool) error {
	switch {
	case c.maxWait != nil:
		return fmt.Errorf("%w: %s doesn't wait; give MaxWait to Acquire or Do", doclock.ErrInvalidArgument, call)
	case c.skip && ticket:
		return fmt.Errorf("%w: %s takes a place in the queue of one document; give SkipLocked to TryAcquire, Acquire or Do", doclock.ErrInvalidArgument, call)
	default:
		return nil
	}
}

// of is what the call asks for of the documents that this filter finds, which are
// some of those that the call's own filter finds.
func (c call) of(f engine.Filter) *call {
	c.filter, c.document = f, ""
	if f.Pin != nil {
		c.document = waitqueue.Key(f.Pin)
	}
	if c.lane = c.document; c.lane == "" {
		c.lane = f.Key()
	}
	c.observed.names(documentOf(f.Pin))
	return &c
}

// by is the request for an entry with this id.
func (c *call) by(id uuid.UUID) engine.Request {
	r := c.request
	r.ID = id
	return r
}

// waiter is that request as the wait queue takes it.
func (c *call) waiter(id uuid.UUID) waitqueue.Request {
	return waitqueue.Request{Request: c.by(id), Exact: c.filter.Exact, Begun: c.begun, Nested: slices.ContainsFunc(c.holding, c.isOf)}
}

// failed makes the error of an acquire. If its context, MaxWait or Close has ended
// it, the error names the holders in the way, by the last conflict or else by
// what this process knows. If no server can be reached, or the last attempt has no
// answer, it says so.
func (c *call) failed(ctx context.Context, err error) error {
	if endedBy(ctx, err) {
		conflict, silence := c.progress.told()
		if conflict == nil && !errors.Is(err, doclock.ErrConflict) {
			conflict = c.known()
		}
		err = oneline.Join(err, conflict, cmp.Or(c.locker.engine.Unreachable(), silence))
	}
	return notAcquired(err)
}

// told is the last conflict, or the one that this process knows, or nil.
func (c *call) told() error {
	if conflict, _ := c.progress.told(); conflict != nil {
		return conflict
	}
	return c.known()
}

// known is the conflict that the wait queue's view of the document shows for the
// acquire, or nil without a view.
func (c *call) known() error {
	img := c.locker.queues.View(c.document)
	if img == nil {
		return nil
	}
	if blocking, _ := c.locker.engine.InTheWay(img, c.request.Tag, nil); len(blocking) == 0 {
		return nil
	}
	return c.conflict(img, nil)
}
