package multilock

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
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

// Locker locks documents of one collection by one set of rules. It is safe for
// concurrent use. Make one, and use it for the life of the program.
type Locker struct {
	engine    *engine.Engine
	ops       attempt.Group
	functions functions
	queues    *waitqueue.Queues
	leases    *lease.Holds
	inflight  *inflight
	cleanup   *cleanup
	idle      idle
	unfit     unfit
	repeats   chan struct{}   // has the claim that repeats a command
	observer  *lease.Observer // or nil
	closed    error           // of calls that Close has ended, or that come after it
}

// New makes a Locker. It sends nothing; [doclock.CheckServer] asks the server. The
// lock's commands go to the primary with majority write concern, whatever the
// collection's own settings are.
//
// Give the same rules to all Lockers of the same documents. Each acquire is decided
// by its own Locker's rules: beside a Semaphore(3), a Locker with Semaphore(5) lets
// in a fourth holder.
//
// A panic in a command monitor of the collection's client comes out of the call that
// waits for the command, whose outcome is unknown. In the background, as in a renewal, it
// is an event, and the work goes on. Its stack is logged, as net/http does. A monitor
// must not end its goroutine (runtime.Goexit, as t.Fatal does): the call may wait for ever.
//
// Errors: [relations.ErrInvalidRules], [doclock.ErrInvalidArgument].
func New(coll *mongo.Collection, rules relations.Rules, opts ...doclock.Option) (*Locker, error) {
	if coll == nil {
		return nil, fmt.Errorf("%w: the collection is nil", doclock.ErrInvalidArgument)
	}
	if err := rules.Validate(); err != nil {
		return nil, err
	}
	cfg, err := lockerConfig(rules, opts)
	if err != nil {
		return nil, err
	}
	e, err := engine.New(coll, rules, cfg)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", doclock.ErrInvalidArgument, err)
	}
	if err := checkShared(e); err != nil {
		return nil, err
	}
	closed := fmt.Errorf("%w: that of %s", doclock.ErrClosed, e.Namespace())
	l := &Locker{
		engine: e, closed: closed, inflight: newInflight(closed), repeats: make(chan struct{}, 1),
		functions: functions{all: map[*function]struct{}{}}, idle: idle{longest: e.Poll()}, observer: lease.NewObserver(e.Namespace(), cfg.Observers),
	}
	l.leases = lease.NewHolds(e, &l.ops, succession{l}, l.observer)
	l.queues = waitqueue.New(waitqueue.Config{
		Rules:   e.Rules(),
		Longest: e.Poll(),
		Now:     func() time.Duration { return e.Clocks().Mono },
		Closing: l.ops.Closing(),
		Closed:  closed,
		Leases:  l.leases,
	})
	l.cleanup = newCleanup(l)
	return l, nil
}

// TryAcquire acquires the lock, or fails, in one command. A refusal is a
// [*doclock.ConflictError], and changes nothing in the document.
//
// Every error is a [doclock.ErrNotAcquired], beside its cause: the caller holds
// nothing. The causes are
//   - [doclock.ErrInvalidArgument], [doclock.ErrInTransaction], [doclock.ErrClosed]:
//     nothing was sent;
//   - [doclock.ErrConflict], [doclock.ErrNotFound], [doclock.ErrForeignLock],
//     [doclock.ErrUnsupportedServer];
//   - the driver's errors, and ctx's.
//
// If ctx ends first, TryAcquire returns at once. Its error is ctx's, with the
// conflict if this process knows of one, and with the driver's reason if no server
// can be reached. If the server grants the lock later, it is released in the
// background.
//
// It takes an [doclock.AttemptTimeout] at most, as [doclock.MaxWait] of 0 does. In
// this time a command of unknown outcome is sent again, if the filter demands an
// equal _id. By another filter a second command could find another document, so it
// is not sent; an entry that the first one may have made is removed in the
// background. If no server can be reached, the error has the driver's, with the
// addresses. Wrong credentials are an error at once.
//
// An acquire would wait for ever if a lease of its own context is in its way: inside
// the function of a Do, DoAll or Lead, or with a context of [doclock.Lease.KeepAlive].
// Each call refuses it at once, also if only a waiter is in its way that waits for such
// a lease: a read inside a read, while a writer waits. The conflict names these entries
// alone ([doclock.Holder]), and says "held by this context" or "waiting for this
// context". If the filter demands an equal _id, and the lease itself is in the way,
// nothing is sent. A goroutine that has inherited the context is refused too, while the
// lease has its entry. To wait for the end of the function, use a context from outside.
// A lease by another mongo.Client is recognised in the first conflict that the server
// answers.
//
// A circle of several contexts is not recognised: two functions that each hold a place
// of one semaphore, or one of two documents, and wait for the other's. Bound such
// waits, as by [doclock.MaxWait], or take all locks by one [DoAll].
//
// At most 8 acquires of one document and 64 of one Locker are under way at a time.
// The others wait before they are sent.
//
// The filter is encoded once, with the collection's registry and BSON options, in
// the caller's goroutine and before anything is sent. When the call has returned,
// the caller may change it. The same is true of Enqueue, Acquire and Do.
func (l *Locker) TryAcquire(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err == nil {
		err = a.refuse("TryAcquire", false)
	}
	if err != nil {
		return nil, lease.Only(doclock.ErrNotAcquired, notAcquired(err))
	}
	a.maxWait = new(time.Duration) // 0
	held, err := a.acquire(ctx)
	return lease.Give(held, lease.Only(doclock.ErrNotAcquired, engine.Raise(err)))
}

// Enqueue asks for the lock in one command, and doesn't wait. The ticket is granted,
// or it waits in the document, where it blocks the tags that respect its tag. Only a
// tag with assertive relations ever waits; any other is granted or refused. A
// refused Enqueue returns no ticket. The errors are those of [Locker.TryAcquire].
func (l *Locker) Enqueue(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (*Ticket, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err == nil {
		err = a.refuse("Enqueue", true)
	}
	if err != nil {
		return nil, lease.Only(doclock.ErrNotAcquired, notAcquired(err))
	}
	l.ops.Enter()
	defer l.ops.Leave()
	a.shared = false // a ticket's entry is its own
	t, err := a.enqueue(a.observed.counted(ctx))
	if err == nil {
		return t, nil
	}
	err = a.failed(ctx, err, nil)
	a.observed.emitEnd(ctx, nil, err)
	return nil, lease.Only(doclock.ErrNotAcquired, engine.Raise(err))
}

// Acquire acquires the lock, and waits for it until ctx ends or the time of
// [doclock.MaxWait] is over. Both bound the wait, and not the lease. Acquire doesn't
// renew the lease: see [doclock.Lease.KeepAlive] and [Locker.Do].
//
// If ctx ends first, the error names the holders in the way, and no entry stays in
// the document, held or waiting: it is removed in the background, and so is the
// entry of an attempt that is executed later. [Locker.Close] ends the wait with
// ErrClosed. While no server can be reached, all waiters get the driver's error
// after 30 s. The other errors are those of [Locker.TryAcquire].
func (l *Locker) Acquire(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err != nil {
		return nil, lease.Only(doclock.ErrNotAcquired, notAcquired(err))
	}
	held, err := a.acquire(ctx)
	return lease.Give(held, lease.Only(doclock.ErrNotAcquired, engine.Raise(err)))
}

// Do holds the lock while fn runs, and releases it whatever happens: return, panic, or
// Goexit. It renews the lock until fn's context ends, and from fn's end on until the
// release is sent. fn's context ends with cause [doclock.ErrLost] at the moment when the
// lease is lost, and when fn has returned. A release by fn itself doesn't end it: what fn
// does after its last write goes on.
//
// Do's error is fn's error, joined with the release's. Three errors in it speak of
// this call's lock, and of nothing else:
//   - [doclock.ErrNotAcquired]: fn was never called, so there is nothing to undo;
//   - [doclock.ErrLost]: others may have been let in while fn was working;
//   - [doclock.ErrOutcomeUnknown]: nobody knows whether others were let in.
//
// It is at most one of the three. After the last two, undo what fn wrote to other
// places, unless fn has done so. Without them nobody was let in until Do's end, and
// any other error is fn's own business. If it is the driver's, from the release, the
// lock was not released, and its entry expires by itself.
//
// If fn returns one of the three errors, it speaks of another lock, of a write, or
// of the end of fn's context. Do's error has its text, but [errors.Is] doesn't find
// it there. So fn itself must act on the outcome of a write. All else is found in
// fn's error as usual. If fn panics or calls Goexit, nobody gets Do's error; an
// observer ([doclock.OnEvent]) gets the event of the lease's end.
//
// ctx bounds the wait and fn. [Locker.Close] waits for fn, and when its own context has
// ended, ends fn's, cause [doclock.ErrClosed]. To bound the wait alone, give [doclock.MaxWait]. fn
// may release the lease itself, or delete the document with [doclock.Lease.Delete].
// Do's error then has the answer of that command.
//
// Two effects may surprise. After the process was stopped, [doclock.Lease.Err] is
// right at once, and fn's context ends a moment later, when its timer runs. If the
// lease's time ran out, but nobody was let in meanwhile, fn's context has ended with
// ErrLost, and still a write under the guard and Do itself return nil: the entry was
// in the document all the time.
func (l *Locker) Do(ctx context.Context, filter any, tag string, fn func(context.Context, doclock.Lease) error, opts ...doclock.AcquireOption) (err error) {
	if fn == nil {
		return notAcquired(errNoFunction)
	}
	l.ops.Enter()
	defer l.ops.Leave()
	a, err := l.begin(ctx, filter, tag, opts)
	if err != nil {
		return lease.Only(doclock.ErrNotAcquired, notAcquired(err))
	}
	held, err := a.acquire(ctx)
	if err != nil {
		return lease.Only(doclock.ErrNotAcquired, engine.Raise(err))
	}
	work, end := held.Work(ctx)
	f := &function{Context: work, given: ctx, handles: []*lease.Handle{held}, end: end, atOnce: a.leads}
	leave := f.begin(l)
	defer func() {
		end(nil)
		err = lease.Beside(err, held.Unlock(attempt.Detached(ctx))) // bounded by the lease's life on the server
		leave()
		err = engine.Raise(err)
	}()
	return fn(f, held)
}

// lockerConfig reads the options of a Locker, and reports all faults at once.
func lockerConfig(rules relations.Rules, opts []doclock.Option) (engine.Config, error) {
	cfg := engine.Config{
		Terms:     engine.Terms{TTL: engine.DefaultTTL, Owner: defaultOwner()},
		Tolerance: engine.DefaultTolerance,
		Field:     engine.DefaultField,
	}
	var faults []error
	for i, opt := range opts {
		if opt == nil {
			faults = append(faults, nilOption(i))
			continue
		}
		faults = append(faults, opt.ApplyLocker(&cfg))
	}
	for _, tag := range slices.Sorted(maps.Keys(cfg.TagTTL)) {
		if _, known := rules[tag]; !known {
			faults = append(faults, fmt.Errorf("%w: TagTTL is for %q, %s", doclock.ErrInvalidArgument, tag, unknownTag(rules)))
		}
	}
	return cfg, oneline.Join(faults...)
}

// checkShared refuses shared tags that the rules don't allow.
func checkShared(e *engine.Engine) error {
	var faults []error
	for _, tag := range e.Shared {
		if _, known := e.Rules()[tag]; !known {
			faults = append(faults, fmt.Errorf("%w: ShareInProcess is for %q, %s", doclock.ErrInvalidArgument, tag, unknownTag(e.Rules())))
		} else if reason := e.Rules().CheckShareable(tag); reason != nil {
			faults = append(faults, fmt.Errorf("%w: holders of %q can't share an entry: %w", doclock.ErrInvalidArgument, tag, reason))
		} else if e.Most > 0 {
			faults = append(faults, holdOfSeveral("HoldAtMost", tag))
		}
	}
	return oneline.Join(faults...)
}

func unknownTag(rules relations.Rules) string {
	return fmt.Sprintf("which is not a tag of the rules (tags: %s)", strings.Join(rules.Tags(), ", "))
}

func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	program := "unknown-program"
	if len(os.Args) > 0 {
		program = filepath.Base(os.Args[0])
	}
	return ownerOf(host, program)
}

// ownerOf is an [doclock.Owner], whatever the names are.
func ownerOf(host, program string) string {
	const longest = 256
	owner := fmt.Sprintf("%s/%d/%s", host, os.Getpid(), program)
	return strings.ToValidUTF8(owner[:min(len(owner), longest)], "?")
}
