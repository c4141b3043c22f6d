package lease

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readconcern"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
	"go.mongodb.org/mongo-driver/v2/mongo/writeconcern"
)

// This file has transactions under leases (rule 28). A transaction finds the entry with its
// mark, and writes its fence, before the caller's function runs. Before another holder is granted,
// the mark is settled. So the transaction is committed before that grant, or never.

// fences are those of a lease: its mark, and a slot for each transaction at a time.
type fences struct {
	places attempt.Gate // one for each slot; all of them for what changes the mark, or ends the lease
	mark   engine.Mark  // of the entry, if it has one
	next   engine.Mark  // it has this one where the command that sets it has no answer
	unsure bool         // that command may be executed yet: nothing begins under the mark
	slots  []slot
	free   []int // slots that no transaction uses; under the lease's mutex
}

// slot is one of the mark's fences. Its transactions are numbered.
type slot struct {
	made   bool
	number int64
}

// sharedSlots is how many transactions of a shared lease run at a time. Of another one it is one.
const sharedSlots = 64

// newFences has all places taken.
func newFences(e *engine.Engine, tag string) *fences {
	n := 1
	if slices.Contains(e.Shared, tag) {
		n = sharedSlots
	}
	f := &fences{places: make(attempt.Gate, n), slots: make([]slot, n), next: engine.Mark{ID: uuid.New(), Slots: n}}
	for i := range n {
		f.places <- struct{}{}
		f.free = append(f.free, n-1-i)
	}
	return f
}

// stopTransactions waits for the end of all transactions, and lets none begin.
func (l *Lease) stopTransactions(ctx context.Context) error {
	if f := l.fences.Load(); f != nil && f.places.Fill(ctx) != nil {
		return l.leftBefore(ctx)
	}
	return nil
}

// allowTransactions gives back all places.
func (l *Lease) allowTransactions() {
	if f := l.fences.Load(); f != nil {
		f.places.Drain(cap(f.places))
	}
}

func (l *Lease) WithTransaction(ctx context.Context, fn func(context.Context) error) error {
	return WithTransaction(ctx, []*Lease{l}, fn)
}

// WithTransaction runs fn in a transaction under all of the leases, which are of one client.
func WithTransaction(ctx context.Context, leases []*Lease, fn func(context.Context) error) error {
	return engine.Raise(withTransaction(ctx, leases, fn))
}

func withTransaction(ctx context.Context, leases []*Lease, fn func(context.Context) error) error {
	if fn == nil {
		return fmt.Errorf("%w: WithTransaction: the function is nil", doclock.ErrInvalidArgument)
	}
	for _, l := range leases {
		if err := l.ready(ctx); err != nil {
			return err
		}
		if !l.engine.SameClient(leases[0].engine) {
			return fmt.Errorf("%w: WithTransaction: %v and %v are of two clients, and a transaction is of one", doclock.ErrInvalidArgument, leases[0].name(), l.name())
		}
	}
	leases = slices.SortedFunc(slices.Values(leases), func(a, b *Lease) int { // so that no two calls wait for each other
		return cmp.Or(cmp.Compare(a.engine.Namespace(), b.engine.Namespace()), cmp.Compare(a.engine.Field, b.engine.Field), a.grant.Pin.Compare(b.grant.Pin),
			bytes.Compare(a.grant.ID[:], b.grant.ID[:]))
	})
	if err := leases[0].supports(ctx); err != nil {
		return err
	}
	session, err := leases[0].engine.StartSession()
	if err != nil {
		return leases[0].failed("transaction", err)
	}
	defer session.EndSession(attempt.Detached(ctx))
	t := &transaction{session: session, leases: leases, begun: time.Now()}
	err = t.run(ctx, fn)
	for _, l := range leases {
		l.emitTransaction(ctx, time.Since(t.begun), err)
	}
	return err
}

// supports refuses a server without transactions.
func (l *Lease) supports(ctx context.Context) error {
	var has bool
	err := attempt.Read(ctx, l.bounds(), func(ctx context.Context) (err error) {
		has, err = l.engine.HasMembers(ctx)
		return err
	})
	switch {
	case err != nil:
		return l.failed("transaction", err)
	case !has:
		return fmt.Errorf("%w: WithTransaction: the server is standalone, and has no transactions: use a replica set or a sharded cluster, "+
			"or write without one, and undo what may come late", doclock.ErrUnsupportedServer)
	default:
		return nil
	}
}

// transaction is a call of WithTransaction.
type transaction struct {
	session *mongo.Session
	leases  []*Lease
	parts   []*part
	begun   time.Time
	commits int
}

// part is a lease of the transaction, with the slot that it has.
type part struct {
	*Lease
	of     *fences
	slot   int
	number int64
}

// mostCommits is how often a function runs whose transaction the server has ended before the commit.
const mostCommits = 3

// again says that the function may run once more, and why it has to.
type again struct{ error }

// run runs the transaction until it has a verdict.
func (t *transaction) run(ctx context.Context, fn func(context.Context) error) error {
	for pause := firstRest; ; pause = min(2*pause, longestRest) {
		err := t.attempt(ctx, fn)
		var repeat again
		if !errors.As(err, &repeat) {
			return err
		}
		limit := t.leases[0].bounds().RetryLimit
		if t.commits >= mostCommits || time.Since(t.begun) > limit || !attempt.Sleep(ctx, pause/2+rand.N(pause)) {
			return t.leases[0].failed("transaction", oneline.Join(repeat.error, whyEnded(repeat.error), ctx.Err(), t.lost()))
		}
	}
}

// whyEnded says what the server's answer doesn't: why it has ended a transaction. How long the
// function took is no sign of it, because the limit may be another one.
func whyEnded(err error) error {
	const noSuchTransaction = 251
	if server := mongo.ServerError(nil); !errors.As(err, &server) || !server.HasErrorCode(noSuchTransaction) {
		return nil
	}
	return errors.New("the server ends one after its transactionLifetimeLimitSeconds, 60 s by default (let the function be shorter), " +
		"and at an error of its commands (let the function return it)")
}

// Pauses between two runs of a function.
const (
	firstRest   = 5 * time.Millisecond
	longestRest = 500 * time.Millisecond
)

// attempt is one run of the function, between the begin of a transaction and its end.
func (t *transaction) attempt(ctx context.Context, fn func(context.Context) error) error {
	defer t.leave()
	for _, l := range t.leases {
		if err := l.enter(ctx, t); err != nil {
			return err
		}
	}
	opts := options.Transaction().SetReadConcern(readconcern.Snapshot()).SetWriteConcern(writeconcern.Majority()).SetReadPreference(readpref.Primary())
	if err := t.session.StartTransaction(opts); err != nil {
		return t.parts[0].failed("transaction", err)
	}
	ended := false
	defer func() {
		if !ended { // or fn has panicked
			t.abort(attempt.Detached(ctx))
		}
	}()
	inside := mongo.NewSessionContext(ctx, t.session)
	if err := t.guard(inside); err != nil {
		ended = true
		t.abort(attempt.Detached(ctx))
		return t.judge(ctx, err)
	}
	err := t.call(inside, fn)
	switch {
	case err != nil && engine.IsTransient(err) && ctx.Err() == nil:
		return again{err}
	case err != nil:
		return oneline.Join(err, t.lost())
	case ctx.Err() != nil:
		return t.parts[0].failed("transaction", oneline.Join(attempt.Ended(ctx), t.lost()))
	}
	ended = true
	return t.commit(ctx)
}

// call calls the function with a context that ends with the first loss, and with the
// function, also by its panic.
func (t *transaction) call(ctx context.Context, fn func(context.Context) error) error {
	work, end := withCancel(ctx)
	defer end(nil)
	for _, p := range t.parts {
		defer p.Follow(end)()
	}
	return Only(nil, fn(work))
}

// lost is the first loss, or nil.
func (t *transaction) lost() error {
	for _, l := range t.leases {
		if lost := l.lostByNow(); lost != nil {
			return lost
		}
	}
	return nil
}

// unmatched is that a statement of the transaction has found no entry of the part, or no
// fence that it may write.
type unmatched struct {
	*part
	revoked bool // the fence is, or is gone
}

func (u *unmatched) Error() string { return "the fence is revoked, or the entry is not there" }

// guard begins the transaction: it finds all entries, and then writes all fences. Nobody waits for
// one whose first message has no answer, and opens it late: it has only read.
func (t *transaction) guard(inside context.Context) error {
	for _, p := range t.parts {
		found, err := p.inside(inside, func(ctx context.Context) (bool, error) { return p.engine.FindMarked(ctx, p.grant, p.of.mark) })
		if err != nil {
			return err
		}
		if !found {
			return &unmatched{part: p}
		}
	}
	for _, p := range t.parts {
		p.of.slots[p.slot].number++
		p.number = p.of.slots[p.slot].number
		written, err := p.inside(inside, func(ctx context.Context) (bool, error) { return p.engine.WriteFence(ctx, p.fence(), p.number) })
		if err != nil {
			return err
		}
		if !written {
			return &unmatched{part: p, revoked: true}
		}
	}
	return nil
}

func (p *part) fence() engine.Fence { return engine.Fence{Mark: p.of.mark.ID, Slot: p.slot} }

// inside sends a command of the transaction.
func (p *part) inside(ctx context.Context, send func(context.Context) (bool, error)) (bool, error) {
	ctx, cancel := context.WithTimeout(engine.WithSending(ctx, p.sending(nil)), p.bounds().Timeout)
	defer cancel()
	return send(ctx)
}

// judge is the verdict on a transaction that ended before its function ran. Where a statement
// has matched nothing, a read shows whether the entry stands: it needs a new mark then, if
// its fence is revoked.
func (t *transaction) judge(ctx context.Context, err error) error {
	var u *unmatched
	switch {
	case errors.As(err, &u):
		return u.part.renewMark(ctx, t, u.revoked, err)
	case ctx.Err() != nil:
		return t.parts[0].failed("transaction", oneline.Join(attempt.Ended(ctx), err))
	case engine.AsFailure(err).Refused() && !engine.IsTransient(err), engine.PanicIn(err) != nil:
		return t.parts[0].failed("transaction", err)
	default:
		return again{err}
	}
}

// renewMark reads whether the entry stands, and gives it a new mark where the old one is
// revoked.
func (p *part) renewMark(ctx context.Context, t *transaction, revoked bool, why error) error {
	img, _, err := settle(ctx, p.Lease, func(ctx context.Context) (*engine.Image, error) { return p.commands.Read(ctx, p.grant.Pin) })
	if err != nil {
		return p.failed("transaction", oneline.Join(ctx.Err(), err))
	}
	own, present := ownEntry(img, p.grant)
	switch {
	case !present:
		return p.lose(engine.Answer{Image: img, Gone: img == nil})
	case revoked || own.Mark.ID != p.of.mark.ID:
		seen := p.of.mark.ID
		t.leave()
		if err := p.setMark(ctx, seen); err != nil {
			return err
		}
	}
	return again{why}
}

// commit commits the transaction. Whatever error the commit has, the fences tell whether it was
// applied.
func (t *transaction) commit(ctx context.Context) error {
	p := t.parts[0]
	fresh := validity{from: p.engine.Clocks(), ttl: settledFor}
	t.commits++
	sending, sent := context.WithTimeout(counted(attempt.Detached(ctx), t.leases), p.bounds().Timeout)
	refused := p.engine.Commit(sending, t.session)
	sent()
	if refused == nil {
		return nil
	}
	rest, cancel := lingering(ctx, p.bounds().Timeout)
	defer cancel()
	t.abort(rest)
	t.supersede(rest)
	applied, err := p.decide(rest)
	switch panicked := engine.PanicIn(refused) != nil; { // of the caller's monitor, which is raised
	case applied && !panicked:
		return nil
	case err != nil, fresh.left(p.engine.Clocks()) <= 0: // its fence may have been removed since
		err := p.unknown("transaction", oneline.Join(refused, err))
		for _, l := range t.leases {
			l.mu.Lock()
			l.undecided = err // the lease is left to its expiry, and who comes next settles what may be committed yet
			l.mu.Unlock()
		}
		return err
	case panicked:
		return p.unknown("transaction", refused)
	case ctx.Err() != nil:
		return p.failed("transaction", oneline.Join(attempt.Ended(ctx), refused))
	default:
		return p.renewMark(ctx, t, true, fmt.Errorf("the server had ended the transaction before its commit, and nothing of it was applied: %w", refused))
	}
}

// decide settles the fence, and reports whether the transaction was committed. The end of ctx
// ends an attempt too.
func (p *part) decide(ctx context.Context) (applied bool, err error) {
	var number int64
	_, err = attempt.Settle(engine.WithSending(ctx, p.sending(nil)), p.bounds(), func(sending context.Context) (err error) {
		sending, cancel := context.WithCancel(sending)
		defer cancel()
		defer context.AfterFunc(ctx, cancel)()
		number, err = p.engine.SettleOwn(sending, p.fence())
		return err
	})
	return err == nil && number >= p.number, err
}

// isUndecided is the error of a transaction of unknown outcome, or nil.
func (l *Lease) isUndecided() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.undecided
}

// abort ends the transaction.
func (t *transaction) abort(ctx context.Context) {
	ctx, cancel := context.WithTimeout(counted(ctx, t.leases), t.leases[0].bounds().Timeout)
	defer cancel()
	engine.Abort(ctx, t.session)
}

// supersede makes sure that no message of an earlier transaction opens one, or commits one, that
// comes yet: it opens one more of the session, and waits for the answer. That one only reads: nobody
// waits for it, if it is opened late itself.
func (t *transaction) supersede(ctx context.Context) {
	l := t.leases[0]
	if err := t.session.StartTransaction(); err != nil {
		return // it is known to be the newest
	}
	ctx, cancel := context.WithTimeout(ctx, l.bounds().Timeout/2)
	defer cancel()
	_, _ = l.engine.FindMarked(mongo.NewSessionContext(ctx, t.session), l.grant, engine.Mark{})
	t.abort(ctx)
}

// lingering is ctx, which ends some time later.
func lingering(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	longer, cancel := context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, cancel)
		context.AfterFunc(longer, func() { timer.Stop() })
	})
	return longer, func() { stop(); cancel() }
}

// enter takes a slot of the lease, once the entry has a mark, and the slot its fence.
func (l *Lease) enter(ctx context.Context, t *transaction) error {
	f, err := l.place(ctx)
	if err != nil {
		return err
	}
	if err := l.mayBegin(); err != nil {
		f.places.Unlock()
		return err
	}
	p := &part{Lease: l, of: f, slot: f.take(l)}
	t.parts = append(t.parts, p)
	if p.of.slots[p.slot].made {
		return nil
	}
	if err := p.makeFence(ctx, p.fence()); err != nil {
		return err
	}
	p.of.slots[p.slot].made = true
	return nil
}

// place takes a place under a mark that no command changes.
func (l *Lease) place(ctx context.Context) (*fences, error) {
	for {
		if err := l.setMark(ctx, uuid.Nil); err != nil {
			return nil, err
		}
		f := l.fences.Load()
		if err := l.lock(ctx, f.places); err != nil || l.hasMark(uuid.Nil) {
			return f, err
		}
		f.places.Unlock() // while it waited, another mark was sent, and not answered
	}
}

// leave gives back the slots.
func (t *transaction) leave() {
	for _, p := range t.parts {
		p.of.put(p.Lease, p.slot)
		p.of.places.Unlock()
	}
	t.parts = nil
}

func (f *fences) take(l *Lease) (slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	slot = f.free[len(f.free)-1]
	f.free = f.free[:len(f.free)-1]
	return slot
}

func (f *fences) put(l *Lease, slot int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	f.free = append(f.free, slot)
}

// mayBegin refuses a transaction of a lease that has ended, or has one that is undecided.
func (l *Lease) mayBegin() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.undecided != nil:
		return fmt.Errorf("nothing was sent, because an earlier transaction is undecided: %w", l.undecided)
	case !l.isOpen():
		return l.Released()
	case l.loss != nil:
		return l.loss
	default:
		return nil
	}
}

// hasMark says that the entry has a mark, and not this one, and that no other one comes yet.
func (l *Lease) hasMark(but uuid.UUID) bool {
	f := l.fences.Load()
	l.mu.Lock()
	defer l.mu.Unlock()
	return f != nil && f.mark.ID != but && !f.unsure
}

// setMark gives the entry another mark than this one, while no transaction runs: those of the old
// mark are decided then. The fence that the next one takes is made at the same time.
func (l *Lease) setMark(ctx context.Context, but uuid.UUID) error {
	if l.hasMark(but) {
		return nil
	}
	if err := l.lock(ctx, l.writing); err != nil {
		return err
	}
	defer l.writing.Unlock()
	if l.hasMark(but) { // another call has set it, and its transaction may be long
		return nil
	}
	if err := l.stopTransactions(ctx); err != nil {
		return err
	}
	defer l.allowTransactions()
	if err := l.mayBegin(); err != nil {
		return err
	}
	f := l.fences.Load()
	if f == nil {
		f = newFences(l.engine, l.Tag())
		l.fences.Store(f)
	}
	first, made := f.free[len(f.free)-1], make(chan error, 1)
	l.ops.Go(func() { made <- l.makeFence(ctx, engine.Fence{Mark: f.next.ID, Slot: first}) })
	var got engine.Answer
	_, err := attempt.Settle(engine.WithSending(ctx, l.sending(nil)), l.bounds(), func(ctx context.Context) (err error) {
		got, err = l.engine.SetMark(ctx, l.grant, f.mark, f.next)
		return err
	})
	noFence := <-made
	l.mu.Lock()
	f.unsure = err != nil
	l.mu.Unlock()
	switch {
	case err != nil:
		return l.failed("transaction", oneline.Join(err, l.lostByNow()))
	case got.Outcome == engine.Lost:
		return l.lose(got)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	f.mark, f.next.ID = f.next, uuid.New()
	for i := range f.slots {
		f.slots[i].made = i == first && noFence == nil
	}
	return noFence
}

// makeFence makes a fence, before the first transaction that writes it.
func (l *Lease) makeFence(ctx context.Context, f engine.Fence) error {
	_, err := attempt.Settle(engine.WithSending(ctx, l.sending(nil)), l.bounds(), func(ctx context.Context) error { return l.engine.MakeFence(ctx, f) })
	if err != nil {
		return l.failed("transaction", oneline.Join(err, l.lostByNow()))
	}
	return nil
}
