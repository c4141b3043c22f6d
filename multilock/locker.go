package multilock

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Locker locks documents of one collection by one table of relations. It is
// safe for concurrent use, and meant to be made once.
type Locker struct {
	engine   *engine.Engine  // for what is pure
	commands engine.Commands // for what is sent
	ops      attempt.Group
	queues   *waitqueue.Queues
	leases   *lease.Holds
	inflight *inflight
	cleanup  *cleanup
}

// New makes a Locker. It sends nothing; see [doclock.CheckServer] for a look
// at the server. Whatever the collection's own settings are, the lock's
// commands go to the primary, with majority write concern.
//
// Errors: [relations.ErrInvalidRules], [doclock.ErrInvalidArgument].
func New(coll *mongo.Collection, rules relations.Rules, opts ...doclock.Option) (*Locker, error) {
	if coll == nil {
		return nil, fmt.Errorf("%w: the collection is nil", doclock.ErrInvalidArgument)
	}
	if err := rules.Validate(); err != nil {
		return nil, err
	}
	cfg := engine.Config{
		TTL:       engine.DefaultTTL,
		Tolerance: engine.DefaultTolerance,
		Field:     engine.DefaultField,
		Owner:     defaultOwner(),
	}
	var faults []error
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, nilOption(i))
			continue
		}
		faults = append(faults, opt(&cfg))
	}
	for tag := range cfg.TagTTL {
		if _, known := rules[tag]; !known {
			faults = append(faults, fmt.Errorf("%w: TagTTL is for %q, %s", doclock.ErrInvalidArgument, tag, unknownTag(rules)))
		}
	}
	if err := oneline.Join(faults...); err != nil {
		return nil, err
	}
	e, err := engine.New(coll, rules, cfg)
	if err != nil {
		return nil, err
	}
	if err := checkShared(e); err != nil {
		return nil, err
	}
	l := &Locker{engine: e, commands: e, inflight: newInflight()}
	l.queues = waitqueue.New(waitqueue.Config{
		Rules:   e.Rules(),
		Now:     func() time.Duration { return e.Clocks().Mono },
		Closing: l.ops.Closing(),
		Closed:  doclock.ErrClosed,
	})
	l.leases = lease.NewHolds(e, e, &l.ops, l.queues)
	l.queues.Connect(l.leases)
	l.cleanup = newCleanup(e, e, &l.ops, l.queues.Removed)
	return l, nil
}

// TryAcquire acquires the lock, or fails, in one command. A refusal is a
// [*doclock.ConflictError] and leaves nothing behind in the document; where an
// earlier attempt is of unknown outcome, what it may enter yet is removed in
// the background.
//
// Every error is a [doclock.ErrNotAcquired] beside its cause, and means that the
// caller holds nothing: [doclock.ErrNotFound], [doclock.ErrConflict],
// [doclock.ErrForeignLock], [doclock.ErrUnsupportedServer], the driver's; and
// before anything is sent [doclock.ErrInvalidArgument], [doclock.ErrInTransaction],
// [doclock.ErrClosed]. If ctx ends first, TryAcquire returns at once with ctx's
// error, the conflict that this process knows of by then, and the driver's
// reason where no server can be reached; what the command grants is released.
//
// At most 8 acquires of one document and 64 of one Locker are under way at a
// time; the others wait for their turn.
//
// A command of unknown outcome is sent again until ctx ends, if the filter
// demands an equal _id at its top level; one by another filter, that could find
// another document the second time, is not. One that can't be sent, because no
// server can be reached, is tried for 30 s, and then the driver's error is
// returned, with the addresses and the reason.
//
// The filter is encoded once, with the collection's registry and BSON options,
// in the caller's goroutine and before anything is sent; it is the caller's
// again when the call has returned. So it is with Enqueue, Acquire and Do.
func (l *Locker) TryAcquire(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (*doclock.Lease, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err == nil {
		err = a.refuseMaxWait("TryAcquire")
	}
	if err != nil {
		return nil, notAcquired(err)
	}
	held, err := a.try(ctx)
	return (*doclock.Lease)(held), err
}

// Enqueue asks for the lock and doesn't wait, in one command: the ticket is
// granted, or waits in the document, where it keeps back whoever respects its
// tag. Only a tag with assertive relations ever waits; any other is granted or
// refused. A refused Enqueue returns no ticket. Errors as of
// [Locker.TryAcquire].
func (l *Locker) Enqueue(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (*Ticket, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err == nil {
		err = a.refuseMaxWait("Enqueue")
	}
	if err != nil {
		return nil, notAcquired(err)
	}
	t, err := a.enqueue(ctx)
	if err != nil {
		a.leave(nil)
	}
	return t, a.failed(ctx, err, nil)
}

// Acquire acquires the lock, and waits for it until ctx ends, or for as long as
// [doclock.MaxWait] says; both bound the wait, not the lease. It doesn't renew by itself: see [doclock.Lease.KeepAlive]
// and [Locker.Do].
//
// An Acquire whose ctx ends leaves nothing behind: its entry, waiting or not,
// and what an attempt that is still out enters, are removed in the background.
// Its error names who was in the way. Other errors as of [Locker.TryAcquire];
// after [Locker.Close], ErrClosed. While no server can be reached all who wait
// are told so after 30 s.
func (l *Locker) Acquire(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (*doclock.Lease, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err != nil {
		return nil, notAcquired(err)
	}
	held, err := a.acquire(ctx)
	return (*doclock.Lease)(held), err
}

// Do holds the lock while fn runs, renews it, and releases it whatever
// happens: return, panic, or Goexit. fn's context is cancelled, with cause
// [doclock.ErrLost], the moment the lease ends.
//
// An [doclock.ErrNotAcquired] says that fn was never called: nothing is to be
// taken back. ctx bounds the wait and fn; to bound the wait alone, give
// [doclock.MaxWait].
//
// Else Do returns fn's error, joined with the release's: nil from fn and a lost
// lease is ErrLost, for others may have been let in while fn was working: what
// fn wrote elsewhere is to be taken back then, and on [doclock.ErrOutcomeUnknown]
// too. Test for these first: a loss also cancels fn's context, whose error fn
// may have returned. Where fn's error is one of the two already, it stands as it
// is: a write whose outcome is unknown is not told to be lost, which would mean
// that it was not applied. fn may release the lease itself, or delete the
// document with [doclock.Lease.Delete].
//
// Two things are no faults. After a stop of the process fn's context may live for
// a moment longer than [doclock.Lease.Err] says: its timer has to run first. And
// where the lease's time ran out, so that fn's context has ended with ErrLost,
// but nobody came meanwhile, a write under the guard and Do itself return nil:
// the entry was there all the time.
func (l *Locker) Do(ctx context.Context, filter any, tag string, fn func(context.Context, *doclock.Lease) error, opts ...doclock.AcquireOption) (err error) {
	held, err := l.Acquire(ctx, filter, tag, opts...)
	if err != nil {
		return err
	}
	defer func() {
		// Bounded by the lease's life on the server.
		released := held.Release(attempt.Detached(ctx))
		if !isVerdict(err) || !isVerdict(released) {
			err = oneline.Join(err, released)
		}
	}()
	return fn(held.KeepAlive(ctx), held)
}

// isVerdict says of an error that it tells what became of a write or of a lock.
func isVerdict(err error) bool {
	return errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown)
}

// Close refuses new acquires, wakes waiters with [doclock.ErrClosed] and waits
// for what runs in the background (commands and releases whose callers gave
// up), or for ctx's end. Leases live on, and can be renewed and released.
//
// What an acquire without a lease may leave is removed once more: an attempt
// that a server executes after Close leaves an entry until it expires.
func (l *Locker) Close(ctx context.Context) error {
	l.cleanup.close()
	return l.ops.Close(ctx)
}

func (l *Locker) closing() bool {
	select {
	case <-l.ops.Closing():
		return true
	default:
		return false
	}
}

func nilOption(i int) error {
	return fmt.Errorf("%w: option %d is nil; leave it out", doclock.ErrInvalidArgument, i)
}

func unknownTag(rules relations.Rules) string {
	return fmt.Sprintf("which the table doesn't know (tags: %s)", strings.Join(rules.Tags(), ", "))
}

func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), filepath.Base(os.Args[0]))
}
