package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// AcquireAll acquires a lease for each want, all or none. The leases are in the
// order of the wants, which may be of several Lockers, collections and clusters.
//
// It sends one acquire after the other, always in one order of the documents: by
// database and collection, lock field, _id as the server sorts it, and shard key. So
// callers that lock several documents by AcquireAll alone never wait for each other
// in a circle. It waits as Acquire does, for one lease at a time, renews those that it
// holds already, and not after its return: see [Leases.KeepAlive].
//
// Equal wants (of one Locker, with equal filters, tags and options) are one lease,
// which stands at each of their places. The document is decoded, as of the grant,
// into each of their [doclock.Into] targets: a transfer of an account to itself, computed
// from both, would lose the first write. Two other wants of one document and lock field
// are refused, whatever their tags are. Documents differ by the collection's name, the
// _id, and the shard key as far as both Lockers know it: those of two clusters with the
// same names are refused as one, and _ids that are equal only by a collation are not
// noticed.
//
// All wants are checked before anything is sent; none at all are a
// [doclock.ErrInvalidArgument]. If one can't be had, the others are released, without a
// remainder of [doclock.HoldAtLeast], and the error is a [*WantError]: the index,
// document and tag of that want, and the error of a single acquire. It is that of a lease
// that was lost before all were held, too.
func AcquireAll(ctx context.Context, wants ...Want) (Leases, error) {
	if len(wants) == 0 {
		return nil, notAcquired(fmt.Errorf("%w: there are no wants; give one at least", doclock.ErrInvalidArgument))
	}
	ordered, err := inOrder(ctx, wants)
	if err != nil {
		return nil, err
	}
	for _, w := range ordered {
		w.locker.ops.Enter()
		defer w.locker.ops.Leave()
	}
	held, err := acquireEach(ctx, ordered)
	if err != nil {
		return nil, engine.Raise(err)
	}
	leases := make(Leases, len(wants))
	for i, w := range ordered {
		for _, index := range w.indexes {
			leases[index] = held[i]
		}
	}
	return leases, nil
}

// acquireEach acquires one lease after the other, and keeps alive those that it
// has. If it returns an error, it has released them.
func acquireEach(ctx context.Context, ordered []*wanted) (held []*lease.Lease, err error) {
	kept, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	all := false
	defer func() {
		if !all { // or the caller's own decoding has panicked
			giveBack(ctx, ordered, held)
		}
	}()
	for _, w := range ordered {
		w.begun = w.locker.queues.Now()
		got, err := w.acquire(kept)
		if err != nil {
			err = w.fault(err)
			if ctx.Err() == nil { // else ctx has ended the wait, and no loss
				err = orLost(ordered, held, err)
			}
			return held, err
		}
		held = append(held, got.Base())
		kept = got.KeepAlive(kept)
		defer (&function{end: stop, atOnce: true}).begin(w.locker)() // the wait for the others
	}
	if err := orLost(ordered, held, nil); err != nil {
		return held, err
	}
	all = true
	return held, nil
}

// giveBack releases leases that no caller has got, each by its own acquire, and waits
// for the answers unless ctx has ended.
func giveBack(ctx context.Context, ordered []*wanted, held []*lease.Lease) {
	answers := make(chan error, len(held))
	for i, h := range held {
		own := ordered[i]
		own.locker.ops.Go(func() { answers <- own.locker.cleanup.takeBack(ctx, own.request, h) })
	}
	for range held {
		select {
		case <-answers:
		case <-ctx.Done():
			return
		}
	}
}

// orLost is the error of the first lease that is lost, or whose Locker is closed, or else
// err.
func orLost(ordered []*wanted, held []*lease.Lease, err error) error {
	for i, l := range held {
		if lost := l.Err(); lost != nil {
			return ordered[i].fault(fmt.Errorf("%w, while the other leases were acquired", lost))
		}
		if ordered[i].locker.ops.Closed() {
			return ordered[i].fault(fmt.Errorf("%w, while the other leases were acquired", ordered[i].locker.closed))
		}
	}
	return err
}

// DoAll holds several leases while fn runs, renews them as [Locker.Do] does, and
// releases them whatever happens: return, panic, or Goexit. It acquires them as
// [AcquireAll] does, and fn gets them in the order of the wants.
//
//	err := multilock.DoAll(ctx, func(ctx context.Context, leases multilock.Leases) error {
//		…
//	}, accounts.Want(doclock.ID("ann"), "write"), accounts.Want(doclock.ID("bob"), "write"))
//
// fn's context ends with the first loss, cause [doclock.ErrLost], and when fn has
// returned, but not by a release of fn's own. The error is as that of [Locker.Do]: fn's
// error, joined with that of [Leases.Release].
//
// DoAll promises that nobody else is granted, and not that fn's writes are applied all or
// none: a process may be killed between two of them. If the server has transactions, send
// the writes in one ([Leases.WithTransaction]). Elsewhere write down first, in one of the documents,
// what will be done, so that the next one who locks it can finish it or take it back, as
// in examples/transfer.
func DoAll(ctx context.Context, fn func(context.Context, Leases) error, wants ...Want) (err error) {
	if fn == nil {
		return notAcquired(errNoFunction)
	}
	for _, w := range wants {
		if w.locker != nil {
			w.locker.ops.Enter()
			defer w.locker.ops.Leave()
		}
	}
	leases, err := AcquireAll(ctx, wants...)
	if err != nil {
		return err
	}
	handles, _, _ := leases.handles()
	work, end := lease.Work(ctx, handles)
	f := &function{Context: work, given: ctx, handles: handles, end: end}
	for _, w := range wants {
		defer f.begin(w.locker)()
	}
	defer func() {
		end(nil)
		err = lease.Beside(err, leases.Release(attempt.Detached(ctx))) // bounded by the leases' life on the server
	}()
	return fn(f, slices.Clone(leases)) // all are released, whatever fn does with its own
}

// Leases are leases that are held together. A lease that stands at several places is
// renewed and released once. A nil one counts as one that was never acquired: it is
// lost ([doclock.ErrLost]).
type Leases []doclock.Lease

// KeepAlive renews each lease until it is released or lost or ctx ends, as
// [doclock.Lease.KeepAlive] does, and returns a context. The context ends with the
// first loss (cause [doclock.ErrLost]), when all leases are released
// ([doclock.ErrReleased]), or with ctx. A lease that is released before the others
// doesn't end it, whatever its release returns; one that others share
// ([doclock.ShareInProcess]) does. After a loss the other leases are still renewed. Without a
// lease the context ends with ctx.
func (ls Leases) KeepAlive(ctx context.Context) context.Context {
	handles, shared, others := ls.handles()
	kept := lease.KeepAlive(ctx, handles)
	if slices.Contains(ls, nil) {
		ended, end := context.WithCancelCause(kept)
		end(errNone)
		kept = ended
	}
	for _, u := range shared {
		others = append(others, u)
	}
	for _, l := range others {
		l.KeepAlive(ctx) // also after the loss of another one
		kept = l.KeepAlive(kept)
	}
	return kept
}

// Renew renews the leases, all at the same time, each as [doclock.Lease.Renew] does. Those
// of one Locker share one command. A lost lease doesn't stop the renewal of the others. The
// errors are joined as those of Release.
func (ls Leases) Renew(ctx context.Context) error {
	return ls.join(func(handles []*lease.Lease, shared []*user) (errs []error) {
		for _, u := range shared {
			if err := u.check(); err != nil {
				errs = append(errs, err)
			} else if !slices.Contains(handles, u.Base()) {
				handles = append(handles, u.Base())
			}
		}
		return append(errs, lease.RenewAll(ctx, handles)...)
	}, func(l doclock.Lease) error { return l.Renew(ctx) })
}

// Release releases the leases, all at the same time, each as [doclock.Lease.Release]
// does, and waits for the answers. Those of one Locker share one command, but for leases
// that another command is under way for, that are handed over, or that others share. A lost
// lease doesn't stop the release of the others. The errors are joined, and each names its
// document: the text has three of them, lost ones first, and counts the others. The joined
// error is a [doclock.ErrLost] if one of the leases was lost, or else a
// [doclock.ErrOutcomeUnknown] if nobody knows whether one was; it is never both. A lease that
// was released before gives the same answer again, and sends nothing.
func (ls Leases) Release(ctx context.Context) error {
	return ls.join(func(handles []*lease.Lease, shared []*user) []error {
		unlocked := make([]error, len(shared))
		var all sync.WaitGroup
		for i, u := range shared {
			all.Go(func() { unlocked[i] = u.Unlock(ctx) })
		}
		errs := lease.ReleaseAll(ctx, handles)
		all.Wait()
		for i, h := range handles {
			errs[i] = h.Judge(errs[i]) // the releases of the others have taken their time
		}
		for i, u := range shared {
			errs = append(errs, u.Base().Judge(unlocked[i]))
		}
		return errs
	}, func(l doclock.Lease) error { return l.Release(ctx) })
}

// join sends a command for all leases, and joins the errors.
func (ls Leases) join(own func([]*lease.Lease, []*user) []error, other func(doclock.Lease) error) error {
	handles, shared, others := ls.handles()
	var errs, rest []error
	if slices.Contains(ls, nil) {
		rest = append(rest, errNone)
	}
	var all sync.WaitGroup
	all.Go(func() { errs = own(handles, shared) })
	for _, l := range others { // here the caller can recover from a panic of his own code
		rest = append(rest, other(l))
	}
	all.Wait()
	var lost, held []error
	for _, err := range append(errs, rest...) {
		if errors.Is(err, doclock.ErrLost) {
			lost = append(lost, err)
		} else {
			held = append(held, err)
		}
	}
	err := engine.Raise(oneline.Some(append(lost, held...)...))
	if len(lost) > 0 {
		return lease.Only(doclock.ErrLost, err)
	}
	return err
}

// WithTransaction is [doclock.Lease.WithTransaction] under all leases at once: what fn writes is
// committed while all of them are held, or never. They must be of one client. A lease that is
// lost makes it an [doclock.ErrLost]; no lease at all is a [doclock.ErrInvalidArgument].
func (ls Leases) WithTransaction(ctx context.Context, fn func(ctx context.Context) error) error {
	var all []*lease.Lease
	for _, l := range ls {
		if u, shares := l.(*user); shares {
			if err := u.check(); err != nil {
				return err
			}
		}
		switch h, own := l.(holder); {
		case l == nil:
			return errNone
		case !own:
			return fmt.Errorf("%w: WithTransaction: a %T is not a lease of a Locker", doclock.ErrInvalidArgument, l)
		case !slices.Contains(all, h.Base()):
			all = append(all, h.Base())
		}
	}
	if len(all) == 0 {
		return fmt.Errorf("%w: WithTransaction: there is no lease", doclock.ErrInvalidArgument)
	}
	return lease.WithTransaction(ctx, all, fn)
}

// handles are the leases of Lockers, each once, those that others share, and fakes of a caller's.
func (ls Leases) handles() (handles []*lease.Lease, shared []*user, others []doclock.Lease) {
	for _, l := range ls {
		switch h := l.(type) {
		case nil:
		case *lease.Lease:
			if !slices.Contains(handles, h) {
				handles = append(handles, h)
			}
		case *user:
			shared = append(shared, h)
		default:
			others = append(others, h)
		}
	}
	return handles, shared, others
}

// errNone is the loss of a nil lease.
var errNone = fmt.Errorf("%w: it was never acquired", doclock.ErrLost)

// Want describes one of several leases that [AcquireAll] and [DoAll] acquire
// together. [Locker.Want] makes it.
type Want struct {
	locker *Locker
	filter any
	tag    string
	opts   []doclock.AcquireOption
}

// Want describes a lease for [AcquireAll] and [DoAll], by the arguments of
// [Locker.Acquire]. The filter must demand an equal _id, and in a sharded collection
// equal fields of the shard key, at its top level; it may demand more. Want checks
// nothing and sends nothing: AcquireAll does.
func (l *Locker) Want(filter any, tag string, opts ...doclock.AcquireOption) Want {
	return Want{locker: l, filter: filter, tag: tag, opts: slices.Clone(opts)}
}

// WantError says which of several wants could not be had. It wraps the error of a
// single acquire, which is a [doclock.ErrNotAcquired].
type WantError struct {
	Index      int           // of the want, among the arguments; of equal wants the first
	Collection string        // as in "shop.accounts"; "" if the want has no Locker
	DocumentID bson.RawValue // the zero value if the filter demands no equal _id
	Tag        string

	err error
}

// Error says which want could not be had, and why.
func (e *WantError) Error() string {
	what := fmt.Sprintf("doclock: wants[%d]", e.Index)
	if e.Collection != "" {
		what += fmt.Sprintf(", %q on a document of %s", e.Tag, e.Collection)
	}
	lock := fmt.Sprintf("%q on document %s of %s", e.Tag, bsonvalue.Readable(e.DocumentID), e.Collection)
	if !e.DocumentID.IsZero() {
		what = fmt.Sprintf("doclock: wants[%d], %s", e.Index, lock)
	}
	text := oneline.Because(errors.New(what), e.err).Error()
	text = what + strings.Replace(strings.TrimPrefix(text, what), ": "+lock, "", 1) // which what has said
	if missing := (*notFound)(nil); errors.As(e.err, &missing) && missing.filter.Exact && !e.DocumentID.IsZero() {
		text = strings.Replace(text, missing.where(), "", 1) // which what has said
	}
	return text
}

// Unwrap returns the error of a single acquire.
func (e *WantError) Unwrap() error { return e.err }

// wanted is a want whose arguments were checked.
type wanted struct {
	*call
	config  engine.AcquireConfig // its options, without the target of Into
	indexes []int                // of the equal wants that it stands for
}

// check checks a want's arguments; nothing is sent yet.
func (w Want) check(ctx context.Context, index int) (*wanted, error) {
	checked := &wanted{indexes: []int{index}}
	if w.locker == nil {
		return nil, checked.fault(fmt.Errorf("%w: the Want is empty; make it by a Locker's Want", doclock.ErrInvalidArgument))
	}
	a, err := w.locker.begin(ctx, w.filter, w.tag, w.opts)
	if err != nil {
		return nil, &WantError{Index: index, Collection: w.locker.engine.Namespace(), DocumentID: w.document(), Tag: w.tag, err: refusal(err)}
	}
	checked.call = a
	if a.filter.Pin == nil {
		return nil, checked.fault(fmt.Errorf("%w: its filter must demand an equal _id at its top level, "+
			"and in a sharded collection equal fields of the shard key: several documents are locked in the order of their _id", doclock.ErrInvalidArgument))
	}
	if a.request.TakeOver != nil {
		return nil, checked.fault(fmt.Errorf("%w: a TakeOver would end leases though the next want may be refused; take over by TryAcquire, Acquire or Do", doclock.ErrInvalidArgument))
	}
	a.alone = true
	checked.config, _ = acquireConfig(w.opts) // which begin has checked
	checked.config.Into = nil
	return checked, nil
}

// document is the _id that the filter demands, or the zero value.
func (w Want) document() (id bson.RawValue) {
	if f, err := w.locker.engine.ParseFilter(w.filter); err == nil {
		id = documentOf(f.Pin)
	}
	return id
}

// fault is the error of this want.
func (w *wanted) fault(err error) error {
	e := &WantError{Index: w.indexes[0], err: refusal(err)}
	if w.call != nil {
		e.Collection, e.Tag = w.locker.engine.Namespace(), w.request.Tag
		e.DocumentID = documentOf(w.filter.Pin)
	}
	return e
}

// equals says that one lease can stand for both wants, which are of one
// document.
func (w *wanted) equals(other *wanted) bool {
	sameFilter := w.filter.Exact && other.filter.Exact || w.filter.Key() == other.filter.Key()
	return w.locker == other.locker && w.request.Tag == other.request.Tag && sameFilter && reflect.DeepEqual(w.config, other.config)
}

// add has the want stand for one that is equal to it, too.
func (w *wanted) add(other *wanted) {
	w.indexes = append(w.indexes, other.indexes...)
	w.into = append(w.into, other.into...)
	w.request.Document = len(w.into) > 0
}

// inOrder checks wants, and returns them in the order in which everybody locks:
// by collection, lock field, _id and shard key. Equal wants become one. Two
// others of one lock are refused, whatever their tags are: each caller could
// hold the first and wait for the second, behind the other's first or behind a
// waiter that waits for both.
func inOrder(ctx context.Context, wants []Want) ([]*wanted, error) {
	all := make([]*wanted, len(wants))
	for i, w := range wants {
		checked, err := w.check(ctx, i)
		if err != nil {
			return nil, err
		}
		all[i] = checked
	}
	slices.SortStableFunc(all, byLock)
	var ordered []*wanted
	for _, w := range all {
		first := sameLock(ordered, w)
		if first == nil {
			ordered = append(ordered, w)
			continue
		}
		if !first.equals(w) {
			return nil, w.fault(fmt.Errorf("%w: wants[%d] is of the same document; "+
				"give one want for it, or equal ones (of one Locker, with equal filters, tags and options)", doclock.ErrInvalidArgument, first.indexes[0]))
		}
		first.add(w)
	}
	return ordered, nil
}

// sameLock is the one of the ordered wants that may be of the same lock as w, or nil.
// Two Lockers may know different fields of the shard key: the documents differ if one
// that both know does.
func sameLock(ordered []*wanted, w *wanted) *wanted {
	for _, other := range slices.Backward(ordered) {
		switch {
		case byID(other, w) != 0:
			return nil
		case agree(other.filter.Pin, w.filter.Pin):
			return other
		}
	}
	return nil
}

// byLock compares the locks that two wants are of.
func byLock(a, b *wanted) int {
	return cmp.Or(byID(a, b), slices.CompareFunc(byName(a.filter.Pin), byName(b.filter.Pin), func(x, y bson.E) int {
		return cmp.Or(strings.Compare(x.Key, y.Key), compareValues(x, y))
	}))
}

// byID compares them without the shard key.
func byID(a, b *wanted) int {
	return cmp.Or(
		strings.Compare(a.locker.engine.Namespace(), b.locker.engine.Namespace()),
		strings.Compare(a.locker.engine.Field, b.locker.engine.Field),
		compareValues(a.filter.Pin[0], b.filter.Pin[0]),
	)
}

// byName are a pin's fields of the shard key, in an order that is the same for all
// Lockers.
func byName(pin engine.Pin) []bson.E {
	return slices.SortedFunc(slices.Values(pin[1:]), func(x, y bson.E) int { return strings.Compare(x.Key, y.Key) })
}

// agree reports whether two pins have the same values for the fields that both have.
func agree(a, b engine.Pin) bool {
	return !slices.ContainsFunc(a, func(x bson.E) bool {
		return slices.ContainsFunc(b, func(y bson.E) bool { return x.Key == y.Key && compareValues(x, y) != 0 })
	})
}

func compareValues(x, y bson.E) int {
	return bsonvalue.Compare(x.Value.(bson.RawValue), y.Value.(bson.RawValue))
}
