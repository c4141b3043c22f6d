package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/claims"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/observe"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Locker locks documents of one collection by one set of rules. It is safe for
// concurrent use. Make one, and use it for the life of the program.
type Locker struct {
	engine   *engine.Engine  // for what is pure
	commands engine.Commands // for what is sent
	ops      attempt.Group
	queues   *waitqueue.Queues
	leases   *lease.Holds
	inflight *inflight
	cleanup  *cleanup
	claims   *claims.Claims
	observer *observe.Observer // or nil
}

// New makes a Locker. It sends nothing; [doclock.CheckServer] asks the server.
// The lock's commands go to the primary with majority write concern, whatever the
// collection's own settings are.
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
	l := &Locker{engine: e, commands: e, inflight: newInflight(), observer: observe.New(e.Namespace(), cfg.Observers)}
	l.queues = waitqueue.New(waitqueue.Config{
		Rules:   e.Rules(),
		Now:     func() time.Duration { return e.Clocks().Mono },
		Closing: l.ops.Closing(),
		Closed:  doclock.ErrClosed,
	})
	l.claims = claims.New(claims.Config{
		Now:     func() time.Duration { return e.Clocks().Mono },
		Closing: l.ops.Closing(),
		Closed:  doclock.ErrClosed,
	})
	l.leases = lease.NewHolds(e, e, &l.ops, succession{l.queues, l.claims}, downgrades{l}, l.observer)
	l.queues.Connect(l.leases)
	l.cleanup = newCleanup(e, e, &l.ops, func(document string, id uuid.UUID) {
		l.queues.Removed(document, id)
		l.claims.Released()
	}, l.tellFailed)
	return l, nil
}

// TryAcquire acquires the lock, or fails, in one command. A refusal is a
// [*doclock.ConflictError] and leaves no trace in the document. If an earlier
// attempt is of unknown outcome, its entry is removed in the background.
//
// Every error is a [doclock.ErrNotAcquired], beside its cause: the caller holds
// nothing. The causes are
//   - [doclock.ErrInvalidArgument], [doclock.ErrInTransaction],
//     [doclock.ErrClosed]: nothing was sent;
//   - [doclock.ErrConflict], [doclock.ErrNotFound], [doclock.ErrForeignLock],
//     [doclock.ErrUnsupportedServer];
//   - the driver's errors, and ctx's.
//
// If ctx ends first, TryAcquire returns at once. Its error is ctx's, with the
// conflict that this process knows of by then, and with the driver's reason if no
// server can be reached. A lock that the command is granted later is released.
//
// At most 8 acquires of one document and 64 of one Locker are under way at a
// time. The others wait for their turn.
//
// A command of unknown outcome is sent again until ctx ends, if the filter
// demands an equal _id at its top level. By another filter it could find another
// document the second time, so it is not sent again. A command that can't be sent,
// because no server can be reached, is tried for 30 s; then the driver's error is
// returned, with the addresses and the reason.
//
// The filter is encoded once, with the collection's registry and BSON options, in
// the caller's goroutine and before anything is sent. When the call has returned,
// the caller may change it. The same is true of Enqueue, Acquire and Do.
func (l *Locker) TryAcquire(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (*doclock.Lease, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err == nil {
		err = a.refuseMaxWait("TryAcquire")
	}
	if err != nil {
		return nil, notAcquired(err)
	}
	var held *lease.Handle
	defer func() { a.tell(ctx, held, err) }()
	held, err = a.try(a.counted(ctx))
	return (*doclock.Lease)(held), err
}

// Enqueue asks for the lock in one command, and doesn't wait. The ticket is
// granted, or it waits in the document, where it blocks tags that respect its tag.
// Only a tag with assertive relations ever waits; an entry of any other tag is
// granted or refused. A refused Enqueue returns no ticket. The errors are those of
// [Locker.TryAcquire].
func (l *Locker) Enqueue(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (*Ticket, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err == nil {
		err = cmp.Or(a.refuseMaxWait("Enqueue"), a.refuseSkipLocked("Enqueue"))
	}
	if err != nil {
		return nil, notAcquired(err)
	}
	t, err := a.enqueue(a.counted(ctx))
	if err == nil {
		return t, nil
	}
	a.leave(nil)
	err = a.failed(ctx, err, nil)
	a.tell(ctx, nil, err)
	return nil, err
}

// Acquire acquires the lock, and waits for it until ctx ends or the time of
// [doclock.MaxWait] is over. Both bound the wait, and not the lease. The lease is
// not renewed by itself: see [doclock.Lease.KeepAlive] and [Locker.Do].
//
// If ctx ends first, no entry stays in the document, held or waiting: it is
// removed in the background, and so is the entry of an attempt that is executed
// later. The error names the holders in the way. The other errors are those of
// [Locker.TryAcquire]. [Locker.Close] ends the wait with ErrClosed. While no server
// can be reached, all waiters get the driver's error after 30 s.
func (l *Locker) Acquire(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (*doclock.Lease, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err != nil {
		return nil, notAcquired(err)
	}
	held, err := a.acquire(ctx)
	return (*doclock.Lease)(held), err
}

// Do holds the lock while fn runs, renews it, and releases it whatever happens:
// return, panic, or Goexit. fn's context ends with cause [doclock.ErrLost] at the
// moment when the lease is lost.
//
// A [doclock.ErrNotAcquired] says that fn was never called: there is nothing to
// undo. ctx bounds the wait and fn. To bound the wait alone, give
// [doclock.MaxWait].
//
// Otherwise Do returns fn's error, joined with the release's. If fn returns nil
// and the lease was lost, Do returns ErrLost: others may have been let in while fn
// was working, so undo what fn wrote to other places. Do the same after an
// [doclock.ErrOutcomeUnknown]. Test for these two errors first: a loss also cancels
// fn's context, and fn may have returned the context's error. If fn's error is one
// of the two already, the release's is not joined to it: a write of unknown outcome
// must not be reported as lost, which would mean that it was not applied. fn may
// release the lease itself, or delete the document with [doclock.Lease.Delete].
//
// Two effects may surprise. After the process was stopped, fn's context may live
// for a moment longer than [doclock.Lease.Err] is nil, because its timer has to run
// first. And if the lease's time ran out, but nobody was let in meanwhile, a write
// under the guard and Do itself return nil, although fn's context has ended with
// ErrLost: the entry was in the document all the time.
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

// Close refuses new acquires, wakes waiters with [doclock.ErrClosed], and waits
// for what runs in the background (commands and releases whose callers gave up), or
// for the end of ctx. Leases stay valid, and can be renewed and released.
//
// Close removes once more what an acquire without a lease may have entered. An
// attempt that the server executes after Close leaves an entry until it expires.
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
	return fmt.Sprintf("which is not a tag of the rules (tags: %s)", strings.Join(rules.Tags(), ", "))
}

func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	return fmt.Sprintf("%s/%d/%s", host, os.Getpid(), filepath.Base(os.Args[0]))
}
