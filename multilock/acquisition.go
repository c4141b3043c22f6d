package multilock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
)

// acquisition is one call of TryAcquire, Enqueue or Acquire on its way.
type acquisition struct {
	locker   *Locker
	filter   engine.Filter
	document string // the key of its wait queue, where the filter tells
	request  waitqueue.Request
	into     []any // what the document is decoded into
	maxWait  *time.Duration
	skip     bool // it takes any document that matches and is free
	timeout  time.Duration
	seen     *engine.Image // the last one that it was answered with
	lane     string        // whose commands are bounded together: the document's, or the filter's

	unsure unsure // attempts by the request's id
	gone   bool   // the caller left while a command was under way: its end is the acquire's
	ended  func() // is called then, once its entry is removed; or nil

	account *account // or nil
}

// unsure counts attempts of unknown outcome: each of them may be executed yet.
type unsure struct {
	n    int
	last time.Time // when the last one ended
}

// note records how an attempt ended.
func (u *unsure) note(err error) {
	if err != nil && !engine.AsFailure(err).Certain {
		u.n++
		u.last = time.Now()
	}
}

func (u *unsure) add(more unsure) {
	u.n += more.n
	if more.n > 0 {
		u.last = more.last
	}
}

// begin checks an acquire's arguments; nothing is sent yet.
func (l *Locker) begin(ctx context.Context, filter any, tag string, opts []doclock.AcquireOption) (*acquisition, error) {
	if _, known := l.engine.Rules()[tag]; !known {
		return nil, fmt.Errorf("%w: unknown tag %q (tags: %s)", doclock.ErrInvalidArgument, tag, strings.Join(l.engine.Rules().Tags(), ", "))
	}
	f, err := l.engine.ParseFilter(filter)
	if err != nil {
		return nil, fmt.Errorf("%w: filter: %w", doclock.ErrInvalidArgument, err)
	}
	if l.engine.Upsert && f.Pin == nil {
		return nil, fmt.Errorf("%w: with Upsert the filter must demand an equal _id at its top level, and in a sharded collection equal fields of the shard key", doclock.ErrInvalidArgument)
	}
	cfg, err := acquireConfig(opts)
	if err != nil {
		return nil, err
	}
	if cfg.SkipLocked && l.engine.Upsert {
		return nil, fmt.Errorf("%w: SkipLocked looks for documents that exist; give it to a Locker without Upsert", doclock.ErrInvalidArgument)
	}
	if cfg.Terms.Least > 0 && slices.Contains(l.engine.Shared, tag) {
		return nil, holdOfSeveral(tag)
	}
	if err := l.open(ctx); err != nil {
		return nil, err
	}
	a := &acquisition{
		locker: l,
		request: waitqueue.Request{
			Request: engine.Request{Tag: tag, ID: uuid.New(), Document: cfg.Into != nil, Terms: cfg.Terms},
			Begun:   l.queues.Now(),
		},
		into:    targets(cfg),
		maxWait: cfg.MaxWait,
		skip:    cfg.SkipLocked,
		timeout: l.engine.Attempt(l.engine.LeaseBy(tag, cfg.Terms)),
		account: l.account(ctx),
	}
	a.aim(f.Sorted(cfg.Sort))
	return a, nil
}

// aim has the acquire mean what the filter finds.
func (a *acquisition) aim(f engine.Filter) {
	a.filter, a.document, a.seen = f, "", nil
	if f.Pin != nil {
		a.document = waitqueue.Key(f.Pin)
	}
	if a.lane = a.document; a.lane == "" {
		a.lane = f.Key()
	}
	a.request.Exact = f.Exact
	a.request.Shared = f.Exact && a.document != "" && a.request.Terms == (engine.Terms{}) && slices.Contains(a.locker.engine.Shared, a.request.Tag)
}

// targets are what the document is decoded into.
func targets(cfg engine.AcquireConfig) []any {
	if cfg.Into == nil {
		return nil
	}
	return []any{cfg.Into}
}

// acquireConfig reads the options of one acquire.
func acquireConfig(opts []doclock.AcquireOption) (cfg engine.AcquireConfig, err error) {
	for i, opt := range opts {
		if opt == nil {
			return cfg, nilOption(i)
		}
		if err := opt(&cfg); err != nil {
			return cfg, err
		}
	}
	return cfg, nil
}

// open refuses a call that can't begin: in a transaction, after Close, or after
// the end of ctx.
func (l *Locker) open(ctx context.Context) error {
	switch {
	case attempt.InTransaction(ctx):
		return errInTransaction
	case l.closing():
		return doclock.ErrClosed
	case ctx.Err() != nil:
		return attempt.Ended(ctx)
	default:
		return nil
	}
}

func (a *acquisition) refuseMaxWait(call string) error {
	if a.maxWait == nil {
		return nil
	}
	return fmt.Errorf("%w: %s doesn't wait; give MaxWait to Acquire or Do", doclock.ErrInvalidArgument, call)
}

func (a *acquisition) refuseSkipLocked(call string) error {
	if !a.skip {
		return nil
	}
	return fmt.Errorf("%w: %s takes a place in the queue of one document; give SkipLocked to TryAcquire, Acquire or Do", doclock.ErrInvalidArgument, call)
}

// where is the key of the document that the acquire was answered with last, or
// that its filter tells.
func (a *acquisition) where() string {
	if a.seen != nil {
		return waitqueue.Key(a.locker.engine.Pin(a.seen))
	}
	return a.document
}

// conflict explains an image to the caller.
func (a *acquisition) conflict(img *engine.Image, own *engine.Entry) error {
	return conflict(a.locker.engine, img, a.request.Tag, own)
}

// failed makes the error of an acquire. If its context, MaxWait or Close has ended
// it, the error names the holders in the way, by the last conflict or else by
// what this process knows. If no server can be reached, it says why.
func (a *acquisition) failed(ctx context.Context, err, last error) error {
	if endedBy(ctx, err) {
		if last == nil && !errors.Is(err, doclock.ErrConflict) {
			last = a.known()
		}
		err = oneline.Join(err, last, a.locker.commands.Unreachable())
	}
	return notAcquired(err)
}

// known is the conflict that the wait queue's view of the document shows for the
// acquire, or nil without a view.
func (a *acquisition) known() error {
	img := a.locker.queues.View(a.where())
	if img == nil {
		return nil
	}
	if blocking, _ := a.locker.engine.InTheWay(img, a.request.Tag, nil); len(blocking) == 0 {
		return nil
	}
	return a.conflict(img, nil)
}
