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
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
)

// call is what a call of TryAcquire, Enqueue, Acquire, Do or Resume asks for. Once it
// is under way nothing but its progress changes: the goroutine that owns the acquire reads it,
// and so does the caller.
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
	patience time.Duration  // a claim's with one command, if its wait is bounded; else 0
	holding  []*lease.Lease // what the context of the call holds
	observed *observed      // or nil
	progress *progress
}

// progress is what a caller is told who leaves: the last conflict, and why the last
// attempt has no answer.
type progress struct {
	unsure atomic.Int32 // arrivals that were executed, or may be

	mu       sync.Mutex
	conflict error
	sent     time.Time // when the attempt began that is under way, or zero
	ended    error     // how the last one ended, or nil if it was answered
}

// note keeps a conflict.
func (p *progress) note(conflict error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conflict = conflict
}

// send sends an attempt.
func (p *progress) send(ctx context.Context, send func(context.Context) error) error {
	p.mu.Lock()
	p.sent = time.Now()
	p.mu.Unlock()
	err := send(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sent, p.ended = time.Time{}, err
	return err
}

// report is the last conflict, and why the last attempt has no answer; both may be nil.
func (p *progress) report() (conflict, silence error) {
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

// outage is why the last attempt met no server that takes commands, or nil. The error of the acquire
// may be that of an earlier attempt, which may have been executed.
func (p *progress) outage() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !engine.AsFailure(p.ended).Outage() {
		return nil
	}
	return explain("acquire", p.ended)
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
	if cfg.TakeOver != nil && (cfg.SkipLocked || cfg.MaxWait != nil) {
		return nil, fmt.Errorf("%w: a TakeOver never waits, and names who has the lock; leave MaxWait and SkipLocked out", doclock.ErrInvalidArgument)
	}
	terms, err := l.termsOf(tag, cfg.Terms)
	if err != nil {
		return nil, err
	}
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	cfg.Terms = terms
	return l.call(ctx, f.Sorted(cfg.Sort), tag, cfg), nil
}

// call is what is asked for by arguments that were checked.
func (l *Locker) call(ctx context.Context, f engine.Filter, tag string, cfg engine.AcquireConfig) *call {
	c := call{
		locker:   l,
		request:  engine.Request{Tag: tag, Document: cfg.Into != nil, Terms: cfg.Terms, TakeOver: cfg.TakeOver},
		begun:    l.queues.Now(),
		maxWait:  cfg.MaxWait,
		skip:     cfg.SkipLocked,
		leads:    cfg.Leads,
		bounds:   l.engine.Attempt(l.engine.LeaseBy(tag, cfg.Terms)),
		holding:  lease.HeldBy(ctx),
		progress: new(progress),
	}
	if cfg.Into != nil {
		c.into = []any{cfg.Into}
	}
	all := c.narrow(f)
	all.observed = l.observed(ctx, all)
	return all
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
	case l.ops.Closed():
		return l.closed
	case ctx.Err() != nil:
		return attempt.Ended(ctx)
	default:
		return nil
	}
}

// tries says that the call takes an attempt's time, and no more.
func (c *call) tries() bool { return c.maxWait != nil && *c.maxWait == 0 }

// refuse refuses options that a call has no use for.
func (c *call) refuse(call string, ticket bool) error {
	switch {
	case c.maxWait != nil:
		return fmt.Errorf("%w: %s doesn't wait; give MaxWait to Acquire or Do", doclock.ErrInvalidArgument, call)
	case c.request.TakeOver != nil && ticket:
		return fmt.Errorf("%w: %s may wait, and a TakeOver never does; give it to TryAcquire, Acquire or Do", doclock.ErrInvalidArgument, call)
	case c.skip && ticket:
		return fmt.Errorf("%w: %s takes a place in the queue of one document; give SkipLocked to TryAcquire, Acquire or Do", doclock.ErrInvalidArgument, call)
	default:
		return nil
	}
}

// narrow is what the call asks for of the documents that this filter finds, which are
// some of those that the call's own filter finds.
func (c call) narrow(f engine.Filter) *call {
	c.filter, c.document = f, ""
	if f.Pin != nil {
		c.document = waitqueue.Key(f.Pin)
	}
	if c.lane = c.document; c.lane == "" {
		c.lane = f.Key()
	}
	c.observed.nameDocument(documentOf(f.Pin))
	return &c
}

// requestWith is the request for an entry with this id.
func (c *call) requestWith(id uuid.UUID) engine.Request {
	r := c.request
	r.ID = id
	return r
}

// waiter is that request as the wait queue takes it.
func (c *call) waiter(id uuid.UUID) waitqueue.Request {
	return waitqueue.Request{Request: c.requestWith(id), Exact: c.filter.Exact, Begun: c.begun, Nested: slices.ContainsFunc(c.holding, c.isOf)}
}

// failed makes the error of an acquire. If its context, MaxWait or Close has ended
// it, the error names the holders in the way, by the last conflict or else by
// what this process knows. If no server can be reached, or the last attempt has no
// answer, it says so.
func (c *call) failed(ctx context.Context, err error) error {
	if endedBy(ctx, err) {
		conflict, silence := c.progress.report()
		if conflict == nil && !errors.Is(err, doclock.ErrConflict) {
			conflict = c.knownConflict()
		}
		why := cmp.Or(c.locker.engine.Unreachable(), silence)
		if conflict == nil && why == nil && c.filter.Pin != nil && !c.skip && !errors.Is(err, doclock.ErrClosed) && !errors.Is(err, doclock.ErrConflict) {
			why = fmt.Errorf("doclock: acquire%s: no answer yet", c.where())
		}
		err = oneline.Join(err, conflict, why)
	}
	return notAcquired(c.doubted(err))
}

// doubted says of a take-over that fails that it may have ended what it names.
func (c *call) doubted(err error) error {
	if len(c.request.TakeOver) == 0 || c.progress.unsure.Load() == 0 {
		return err
	}
	return oneline.Join(err, errMayHaveEnded)
}

// lastConflict is the last conflict, or the one that this process knows, or nil.
func (c *call) lastConflict() error {
	if conflict, _ := c.progress.report(); conflict != nil {
		return conflict
	}
	return c.knownConflict()
}

// knownConflict is the conflict that the wait queue's view of the document shows for the
// acquire, or nil without a view.
func (c *call) knownConflict() error {
	img := c.locker.queues.View(c.document)
	if img == nil {
		return nil
	}
	if blocking, _ := c.locker.engine.InTheWay(img, c.request.Tag, nil); len(blocking) == 0 {
		return nil
	}
	return c.conflict(img, nil)
}

// One goroutine owns an acquire, from the call to the lease: what it sends runs to its end,
// and what it made is the caller's lease or is removed. The caller leaves in acquire alone.

// granted is a lease, and the document as of the grant.
type granted struct {
	lease *lease.Lease
	image *engine.Image
	sent  time.Duration // when the command was sent, on the monotonic clock
}

// holder is a lease, or a user's part of a shared one.
type holder interface {
	doclock.Lease
	Base() *lease.Lease
	Work(context.Context) (context.Context, context.CancelCauseFunc)
	Unlock(context.Context) error
}

func base(h holder) *lease.Lease {
	if h == nil {
		return nil
	}
	return h.Base()
}

// acquire acquires the lock, and waits for it, for as long as MaxWait says. Close waits for
// its end, and so returns after the waiters' entries were removed, and documents decoded.
func (c *call) acquire(ctx context.Context) (held holder, err error) {
	c.locker.ops.Enter()
	defer c.locker.ops.Leave()
	defer func() {
		events := c.observed.emitEnd(ctx, base(held), err)
		if u, shares := held.(*user); shares {
			u.events = events
		}
	}()
	ctx, cancel := c.bounded(c.observed.count(ctx))
	defer cancel()
	if err := c.nested(); err != nil {
		return nil, err
	}
	if c.shares() {
		return c.share(ctx)
	}
	if c.skip {
		claiming, end := c.untilClose(ctx)
		defer end()
		ctx = claiming
	}
	type result struct {
		granted
		err error
	}
	got, gone := attempt.Run(ctx, c.locker.ops, func() result {
		got, err := c.run(ctx)
		return result{got, err}
	}, func(late result) { c.takeBack(late.lease) })
	if err := cmp.Or(gone, got.err); err != nil {
		return nil, c.failed(ctx, err)
	}
	own, err := c.deliver(got.granted)
	if err != nil {
		return nil, err
	}
	return own, nil
}

// bounded is ctx with the bounds of MaxWait.
func (c *call) bounded(ctx context.Context) (context.Context, context.CancelFunc) {
	cancel := context.CancelFunc(func() {})
	if c.request.TakeOver != nil {
		c.maxWait = new(time.Duration) // 0
	}
	if c.maxWait != nil {
		most := *c.maxWait
		if c.tries() {
			most = c.bounds.Timeout
			c.bounds.RetryLimit = most / 2 // so that it mostly ends with its reason, before ctx does
		}
		if c.request.TakeOver != nil { // and it is known whether it was sent
			c.bounds.Timeout = most - most/20
		}
		ctx, cancel = context.WithTimeoutCause(ctx, most, &attempt.Over{After: most})
	}
	if end, ends := ctx.Deadline(); ends {
		c.patience = time.Until(end) / 3
	}
	return ctx, cancel
}

// untilClose is the context of a claim: Close ends it at once.
func (c *call) untilClose(ctx context.Context) (claiming context.Context, end func()) {
	claiming, cancel := context.WithCancelCause(ctx)
	leave := (&function{end: func(err error) { attempt.End(cancel, err) }, atOnce: true}).begin(c.locker)
	return claiming, func() {
		leave()
		cancel(nil)
	}
}

// run is the acquire, in its own goroutine.
func (c *call) run(ctx context.Context) (granted, error) {
	switch {
	case c.skip:
		return c.claim(ctx)
	case c.tries():
		return c.try(ctx)
	case c.document == "":
		return c.find(ctx)
	default:
		a := c.arrival()
		return a.wait(ctx, waitqueue.Known{})
	}
}

// takeBack releases a lease whose caller has left.
func (c *call) takeBack(late *lease.Lease) {
	if late != nil {
		_ = c.locker.cleanup.takeBack(context.Background(), c.request, late)
	}
}

// try sends one acquire that doesn't wait.
func (c *call) try(ctx context.Context) (granted, error) {
	a := c.arrival()
	got, err := a.ask(ctx, true)
	return a.end(ctx, got, err, nil)
}

// find asks the server first, because only the server knows which document the filter
// finds. It asks for the lock and not for a place: a place in the document would
// block the earlier waiters of this process.
func (c *call) find(ctx context.Context) (granted, error) {
	a := c.arrival()
	got, err := a.ask(ctx, true)
	if ctx.Err() != nil {
		err = attempt.Ended(ctx)
	}
	if got.lease != nil || !waits(err) {
		return a.end(ctx, got, err, nil)
	}
	a.call = c.narrow(c.filter.At(c.locker.engine.Pin(got.image)))
	c.progress.note(err)
	return a.wait(ctx, waitqueue.Known{Image: got.image, Sent: got.sent})
}

// waits says that an acquire goes on after a step with this error: it was refused, or has a
// place.
func waits(err error) bool {
	return err == nil || errors.Is(err, doclock.ErrConflict) && !isNested(err)
}

// wait waits in the document's wait queue until the lock is granted, ctx ends,
// the locker is closed, or something other than a conflict comes back.
func (a *arrival) wait(ctx context.Context, known waitqueue.Known) (got granted, err error) {
	w := a.locker.queues.Enter(a.document, a.waiter(a.id), known)
	a.observed.emitQueued(w)
	defer a.observed.remind()()
	defer func() { // until its entry is removed a waiter whose caller has left is busy: the next one doesn't ask
		got, err = a.end(ctx, got, err, w)
	}()
	return a.await(ctx, w, func(handed *engine.Answer) (granted, waitqueue.Result, error) {
		got, err := a.step(ctx, handed)
		return got, a.result(got), err
	})
}

// await takes a step whenever it is the waiter's turn.
func (a *arrival) await(ctx context.Context, w *waitqueue.Waiter, step func(handed *engine.Answer) (granted, waitqueue.Result, error)) (granted, error) {
	queues := a.locker.queues
	for {
		handed, err := queues.Await(ctx, w)
		if err != nil {
			return granted{}, err
		}
		got, result, err := step(handed)
		if ctx.Err() != nil {
			if waits(err) {
				a.progress.note(err)
				err = attempt.Ended(ctx)
			}
			return got, err
		}
		queues.Report(w, result)
		if got.lease != nil {
			return got, nil
		}
		if !waits(err) {
			away := err
			if !engine.AsFailure(err).Outage() {
				away = a.progress.outage()
			}
			if away != nil { // for as long as any command is repeated
				queues.Fail(w, away)
			}
			return granted{}, err
		}
		a.progress.note(err)
		a.observed.emitWaiting(err)
	}
}

// step reads a handoff's answer, or asks the server. An entry that was pruned, or whose document
// doesn't match, is made anew if it does, under a new id and at the end of the document's queue.
func (a *arrival) step(ctx context.Context, handed *engine.Answer) (got granted, err error) {
	waited := a.place != nil
	if handed != nil && handed.Image != nil {
		got, err = a.judge(*handed)
	} else {
		if handed != nil { // the handoff may have made its entry
			a.unsure.count()
		}
		got, err = a.ask(ctx, false)
	}
	for errors.Is(err, doclock.ErrLost) || waited && errors.Is(err, doclock.ErrNotFound) {
		waited = false
		*a = a.call.arrival()
		got, err = a.ask(ctx, false)
	}
	return got, err
}

// result is what a step has brought, for the wait queue. The document is the image's, or the
// one that the filter names.
func (a *arrival) result(got granted) waitqueue.Result {
	r := waitqueue.Result{ID: a.id, Held: got.lease != nil, Place: a.queuePlace(), Image: got.image, Document: a.document}
	if got.image != nil {
		r.Document = waitqueue.Key(a.locker.engine.Pin(got.image))
	}
	return r
}

// deliver gives the caller the document of a lease, which is released if that fails.
func (c *call) deliver(got granted) (*lease.Lease, error) {
	err := c.decode(got.image, func() { c.locker.cleanup.release(context.Background(), c.request, got.lease) })
	if err != nil {
		if c.skip && c.filter.Pin == nil {
			c.spoiled(got.image, err)
		}
		return nil, notAcquired(c.doubted(err))
	}
	return got.lease, nil
}

// decode gives the caller the document, in his own goroutine: a command whose caller gave up
// must not write into the caller's memory. If it can't be decoded, or the caller's own
// decoding panics, failed is called.
func (c *call) decode(img *engine.Image, failed func()) error {
	decoded := false
	defer func() {
		if !decoded { // or the caller's code has panicked
			failed()
		}
	}()
	for _, into := range c.into {
		if err := c.locker.engine.Decode(img, into); err != nil {
			return oneline.Because(fmt.Errorf("doclock: decode document %s into a %T", bsonvalue.Readable(img.ID), into), err)
		}
	}
	decoded = true
	return nil
}
