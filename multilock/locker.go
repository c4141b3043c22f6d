package multilock

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
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
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Locker locks documents of one collection by one set of rules. It is safe for
// concurrent use. Make one, and use it for the life of the program.
type Locker struct {
	engine    *engine.Engine
	ops       *attempt.Group
	functions functions
	queues    *waitqueue.Queues
	leases    *lease.Leases
	slots     *slots
	cleanup   *cleanup
	idle      idle
	unfit     unfit
	crowd     atomic.Int32 // how often more documents batches look for than they claim: its power of two
	sweeper   sweeper
	shares    shares
	repeats   attempt.Gate    // of the claim that repeats a command
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
	ops := attempt.NewGroup()
	l := &Locker{
		engine: e, ops: ops, closed: closed, repeats: make(chan struct{}, 1),
		functions: functions{all: map[*function]struct{}{}}, shares: shares{all: map[string]*share{}},
		idle: idle{longest: e.Poll(), queues: map[string]*idleQueue{}}, observer: lease.NewObserver(e.Namespace(), cfg.Observers),
	}
	l.slots = &slots{locker: l, all: make(attempt.Gate, mostPerLocker), lanes: map[string]*lane{}}
	l.leases = lease.NewLeases(e, l.ops, succession{l}, l.observer)
	l.queues = waitqueue.New(waitqueue.Config{
		Rules:   e.Rules(),
		Longest: e.Poll(),
		Now:     func() time.Duration { return e.Clocks().Mono },
		Closing: l.ops.Closing(),
		Closed:  closed,
		Holds:   l.leases.Valid,
	})
	l.cleanup = &cleanup{locker: l, debts: map[string]*debt{}}
	return l, nil
}

// TryAcquire acquires the lock, or fails, in one command. A refusal is a
// [*doclock.ConflictError], and changes nothing in the document. It takes an
// [doclock.AttemptTimeout] at most, whatever the server does, as [doclock.MaxWait] of 0
// does. The package's documentation has the errors of all acquires.
func (l *Locker) TryAcquire(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err == nil {
		err = a.refuse("TryAcquire", false)
	}
	if err != nil {
		return nil, refusal(err)
	}
	a.maxWait = new(time.Duration) // 0
	held, err := a.acquire(ctx)
	return held, refusal(err)
}

// Enqueue asks for the lock in one command, and doesn't wait. The ticket is granted,
// or it waits in the document, where it blocks the tags that respect its tag. Only a
// tag with assertive relations ever waits; any other is granted or refused. A
// refused Enqueue returns no ticket.
func (l *Locker) Enqueue(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (*Ticket, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err == nil {
		err = a.refuse("Enqueue", true)
	}
	if err != nil {
		return nil, refusal(err)
	}
	l.ops.Enter()
	defer l.ops.Leave()
	t, err := a.enqueue(a.observed.count(ctx))
	if err == nil {
		return t, nil
	}
	err = a.failed(ctx, err)
	a.observed.emitEnd(ctx, nil, err)
	return nil, refusal(err)
}

// Acquire acquires the lock, and waits for it until ctx ends or the time of
// [doclock.MaxWait] is over. Both bound the wait, and not the lease. Acquire doesn't
// renew the lease: see [doclock.Lease.KeepAlive] and [Locker.Do]. [Locker.Close] ends the
// wait with ErrClosed. While no server can be reached, all waiters get the driver's error
// after 30 s.
func (l *Locker) Acquire(ctx context.Context, filter any, tag string, opts ...doclock.AcquireOption) (doclock.Lease, error) {
	a, err := l.begin(ctx, filter, tag, opts)
	if err != nil {
		return nil, refusal(err)
	}
	held, err := a.acquire(ctx)
	return held, refusal(err)
}

// Do holds the lock while fn runs, and releases it whatever happens: return, panic, or
// Goexit. It renews the lock until fn's context ends, and from fn's end on until the
// release is sent. fn's context ends with cause [doclock.ErrLost] at the moment when the
// lease is lost, with ctx, when Close's own context has ended, and when fn has returned,
// but not by a release of fn's own. ctx bounds the wait and fn; [doclock.MaxWait] bounds
// the wait alone.
//
// Do's error is fn's error, joined with the release's. At most one of three is in it, and
// speaks of this call's lock:
//   - [doclock.ErrNotAcquired]: fn was never called, so there is nothing to undo;
//   - [doclock.ErrLost]: others may have been granted while fn was working;
//   - [doclock.ErrOutcomeUnknown]: nobody knows whether others were granted.
//
// After the last two, undo what fn wrote to other places. Without the three nobody was
// granted until Do's end. If the error is the driver's, from the release, the entry
// expires by itself. If fn ends the lease itself, Do's error has the answer of that
// command.
//
// If fn returns one of the three errors, it speaks of another lock, of a write, or
// of the end of fn's context. Do's error has its text, but [errors.Is] doesn't find
// it there: fn itself must act on the outcome of a write. If fn panics or calls Goexit,
// only an observer ([doclock.OnEvent]) learns how the lease has ended.
//
// If the lease's time ran out, but nobody was granted meanwhile, fn's context has ended
// with ErrLost, and still a write under the guard and Do itself return nil: the entry was
// in the document all the time.
func (l *Locker) Do(ctx context.Context, filter any, tag string, fn func(context.Context, doclock.Lease) error, opts ...doclock.AcquireOption) (err error) {
	if fn == nil {
		return notAcquired(errNoFunction)
	}
	l.ops.Enter()
	defer l.ops.Leave()
	a, err := l.begin(ctx, filter, tag, opts)
	if err != nil {
		return refusal(err)
	}
	held, err := a.acquire(ctx)
	if err != nil {
		return refusal(err)
	}
	work, end := held.Work(ctx)
	f := &function{Context: work, given: ctx, handles: []*lease.Lease{held.Base()}, end: end, atOnce: a.leads}
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

// succession is the Locker as its leases see it: who comes after them.
type succession struct{ *Locker }

func (l succession) Next(g engine.Grant) *engine.Successor { return l.queues.Next(g) }

// Ended tells the waiters and the claims how the lock
// was left, and the clean-up what attempts may still make.
func (l succession) Ended(e lease.Ending) {
	switch e.How {
	case lease.Released:
		l.queues.Released(e.Grant)
		l.idle.released()
	case lease.HandedOver:
		l.queues.HandedOver(e.Grant, e.Answer, e.Made)
	case lease.Detached:
		l.queues.Detached(e.Grant)
	}
	for _, u := range e.Unanswered {
		l.cleanup.discard(engine.Filter{Pin: e.Grant.Pin}, u.Request, unsure{u.Attempts, u.Last}, false, nil)
	}
}

// Close shuts the Locker down. At once it refuses new acquires, wakes waiters with
// [doclock.ErrClosed], and ends the context of a Lead's function with that cause. Then
// it waits for the functions of Do, DoAll and Lead, and for what runs in the background
// (commands and releases whose callers gave up). When ctx ends, it ends the contexts of
// the other functions too, and waits for an AttemptTimeout more.
//
// It returns nil if nothing is left. Else its error names the functions that have not
// ended, the leases that nobody has released, and the entries that nobody holds and
// that could not be removed. Leases stay valid, and can be renewed and released.
//
// Close removes once more what acquires without a lease may have left. A removal
// without an answer is repeated, for 30 s or two AttemptTimeouts while Close waits, and
// after that until the entry expires. An attempt that the server executes after Close
// leaves an entry until it expires.
//
// With the context of a function of the same Locker, Close would wait for itself. It
// is refused, with a [doclock.ErrInvalidArgument], and does nothing.
func (l *Locker) Close(ctx context.Context) error {
	if l.functions.have(ctx) {
		return fmt.Errorf("%w: Close with the context of a function that the Locker runs; it waits for that function: call it after Do, DoAll or Lead", doclock.ErrInvalidArgument)
	}
	l.ops.Close()
	l.functions.stop(l.closed, false)
	defer l.cleanup.close()()
	err := l.ops.Wait(ctx)
	if err != nil {
		l.functions.stop(l.closed, true)
		more, cancel := context.WithTimeout(attempt.Detached(ctx), l.engine.Attempt(l.engine.TTL).Timeout)
		defer cancel()
		if l.ops.Wait(more) == nil {
			err = nil
		}
	}
	return oneline.Join(err, l.functions.remain(), l.unreleased(), l.cleanup.remains(err == nil))
}

// unreleased is the error of a Close that leaves leases: those of functions that have
// not ended are named as that.
func (l *Locker) unreleased() error {
	running := l.functions.ids()
	var names []string
	for _, left := range l.leases.Left() {
		if _, named := running[left.ID]; !named {
			names = append(names, fmt.Sprintf("%s until %s", nameOf(left.Tag, left.ID, left.Pin.ID()), left.Until.UTC().Format(time.RFC3339)))
		}
	}
	return describeLeft("leaves leases that nobody has released", names)
}

func nameOf(tag string, id uuid.UUID, document bson.RawValue) string {
	if document.IsZero() {
		return fmt.Sprintf("%s of %q in a document", id, tag)
	}
	return fmt.Sprintf("%s of %q in document %s", id, tag, bsonvalue.Readable(document))
}

const mostNamed = 3

// describeLeft is the error of a Close that leaves something.
func describeLeft(what string, names []string) error {
	if len(names) == 0 {
		return nil
	}
	if more := len(names) - mostNamed; more > 0 {
		names = append(names[:mostNamed:mostNamed], fmt.Sprintf("and %d more", more))
	}
	return fmt.Errorf("doclock: Close %s: %s", what, strings.Join(names, ", "))
}

// functions are those that run under leases of a Locker.
type functions struct {
	mu   sync.Mutex
	all  map[*function]struct{}
	over bool // Close has ended all, and ends at once what was granted since
}

// function is one of Do, DoAll or Lead, and its context. Without a context it is a claim, or
// a call that has some of several leases, and waits for the others.
type function struct {
	context.Context
	given   context.Context // the one of its call
	handles []*lease.Lease
	end     context.CancelCauseFunc
	atOnce  bool // Close ends it at once
}

func (f *function) Value(key any) any {
	if key == (functionKey{}) {
		return f
	}
	return f.Context.Value(key)
}

// functionKey finds the innermost function that a context is of.
type functionKey struct{}

// begin has Close know of the function until leave is called.
func (f *function) begin(l *Locker) (leave func()) {
	l.functions.mu.Lock()
	l.functions.all[f] = struct{}{}
	over := l.functions.over
	l.functions.mu.Unlock()
	if over || f.atOnce && l.ops.Closed() {
		f.end(l.closed)
	}
	return func() {
		l.functions.mu.Lock()
		defer l.functions.mu.Unlock()
		delete(l.functions.all, f)
	}
}

// have says that the context is one of a function that runs, or comes from it.
func (fs *functions) have(ctx context.Context) bool {
	fs.mu.Lock()
	all := maps.Clone(fs.all)
	fs.mu.Unlock()
	for {
		f, inside := ctx.Value(functionKey{}).(*function)
		if !inside {
			return false
		}
		if _, runs := all[f]; runs {
			return true
		}
		ctx = f.given
	}
}

// stop ends the contexts of all functions, or of those that end at once, under no mutex:
// what follows the end of a context may be the caller's code.
func (fs *functions) stop(cause error, all bool) {
	fs.mu.Lock()
	fs.over = fs.over || all
	running := maps.Clone(fs.all)
	fs.mu.Unlock()
	for f := range running {
		if all || f.atOnce {
			f.end(cause)
		}
	}
}

// ids are those of the leases of all functions.
func (fs *functions) ids() map[uuid.UUID]*lease.Lease {
	fs.mu.Lock()
	defer fs.mu.Unlock()
	ids := map[uuid.UUID]*lease.Lease{}
	for f := range fs.all {
		for _, h := range f.handles {
			ids[h.ID()] = h
		}
	}
	return ids
}

// remain is the error of a Close that leaves functions.
func (fs *functions) remain() error {
	var names []string
	for id, h := range fs.ids() {
		names = append(names, nameOf(h.Tag(), id, h.DocumentID()))
	}
	return describeLeft("leaves functions that have not ended, or whose leases are not released", names)
}
