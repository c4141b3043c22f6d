package multilock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/internal/waitqueue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var errInTransaction = fmt.Errorf("%w: lock before it starts", doclock.ErrInTransaction)

var errNoFunction = fmt.Errorf("%w: the function is nil; give one that works under the lock", doclock.ErrInvalidArgument)

var errMayHaveEnded = errors.New("doclock: the leases that it was to take over may have ended")

// notAcquired makes the error of an acquire from its cause.
func notAcquired(err error) error {
	if err == nil || errors.Is(err, doclock.ErrNotAcquired) {
		return err
	}
	return oneline.Because(doclock.ErrNotAcquired, err)
}

// endedBy reports that err is the end of ctx, or Close.
func endedBy(ctx context.Context, err error) bool {
	return errors.Is(err, doclock.ErrClosed) || attempt.EndedBy(ctx, err)
}

// nested refuses, before anything is sent, an acquire of a document whose lock the
// context holds: it would wait for ever for a lease that is released after it.
func (c *call) nested() error {
	img := &engine.Image{Now: c.locker.engine.Clocks().Wall}
	for _, h := range c.holding {
		entry, standing := h.Standing()
		again := slices.ContainsFunc(img.Lock.Entries, func(other engine.Entry) bool { return other.ID == entry.ID }) // two leases may have one entry
		if of, _ := h.Place(); standing && !again && of.SamePlace(c.locker.engine) && c.isOf(h) {
			img.Lock.Entries = append(img.Lock.Entries, entry)
		}
	}
	entries, free := c.locker.engine.InTheWay(img, c.request.Tag, nil)
	if len(entries) == 0 {
		return nil
	}
	img.ID = c.filter.Pin.ID()
	err := c.locker.inTheWay(img, c.request.Tag, entries, free, img)
	if c.skip {
		err = oneline.Join(c.notFound(), err)
	}
	return notAcquired(err)
}

// isOf says that a lease of the context is of the document that the acquire is for, as
// far as names tell.
func (c *call) isOf(h *lease.Lease) bool {
	of, pin := h.Place()
	return c.filter.Pin != nil && of.SameNames(c.locker.engine) && waitqueue.Key(pin) == c.document
}

// conflict names the entries of an image that block an arrival, or the waiting entry
// own. If it would wait for itself, it names those of its context alone, or else those
// that wait for its context.
func (c *call) conflict(img *engine.Image, own *engine.Entry) error {
	stuck := c.locker.engine.Stuck(img, standing(c.holding))
	held := &engine.Image{Now: img.Now}
	for _, e := range stuck.Lock.Entries {
		if e.Held() {
			held.Lock.Entries = append(held.Lock.Entries, e)
		}
	}
	for _, some := range []*engine.Image{held, stuck, img} {
		if entries, free := c.locker.engine.InTheWay(some, c.request.Tag, own); len(entries) > 0 {
			return c.locker.inTheWay(img, c.request.Tag, entries, free, stuck)
		}
	}
	why := fmt.Sprintf("nothing in its lock is in the way of %q", c.request.Tag)
	for _, e := range img.Lock.Entries {
		if e.Expires.IsZero() {
			why = fmt.Sprintf("the field expires of %s is no date", nameOf(e.Tag, e.ID, img.ID))
		}
	}
	return fmt.Errorf("%w: document %s was left as it is: %s", doclock.ErrForeignLock, bsonvalue.Readable(img.ID), why)
}

// standing are the ids of the entries that these leases have.
func standing(held []*lease.Lease) (ids []uuid.UUID) {
	for _, h := range held {
		if _, standing := h.Standing(); standing {
			ids = append(ids, h.ID())
		}
	}
	return ids
}

// isNested says of a conflict that to wait is of no use: all that is in the way is the
// context's own, or waits for it.
func isNested(err error) bool {
	var c *doclock.ConflictError
	return errors.As(err, &c) && len(c.Holders) > 0 && !slices.ContainsFunc(c.Holders, func(h doclock.Holder) bool { return !h.InContext })
}

// inTheWay is the conflict with these entries of an image, some of which are stuck.
func (l *Locker) inTheWay(img *engine.Image, tag string, entries []engine.Entry, free time.Duration, stuck *engine.Image) error {
	return &doclock.ConflictError{Tag: tag, DocumentID: img.ID, RetryAfter: free, Holders: l.holders(img, entries, stuck)}
}

// lost is the error of a loss.
func (l *Locker) lost(loss lease.Loss) error {
	g := loss.Grant
	e := &doclock.LostError{
		Collection: l.engine.Namespace(), DocumentID: g.Pin.ID(), Tag: g.Tag, Owner: g.Owner,
		Reason: loss.Reason, Since: loss.Since,
	}
	if loss.Image != nil {
		entries, _ := l.engine.InTheWay(loss.Image, g.Tag, nil)
		entries = slices.DeleteFunc(entries, func(e engine.Entry) bool { return !e.Held() || e.ID == g.ID }) // a late repeat may have made its own again
		e.Holders = l.holders(loss.Image, entries, &engine.Image{})
	}
	return e
}

// missing is the loss of an entry that an answer doesn't show.
func (l *Locker) missing(g engine.Grant, got engine.Answer) error {
	return l.lost(lease.Missing(&g, got, l.engine.Clocks().Wall))
}

// holders are these entries of an image, as errors show them.
func (l *Locker) holders(img *engine.Image, entries []engine.Entry, stuck *engine.Image) (all []doclock.Holder) {
	for _, e := range entries {
		_, ours := stuck.Lock.Find(e.Tag, e.ID)
		all = append(all, doclock.Holder{
			Tag: e.Tag, ID: e.ID, Fence: e.Fence, Owner: e.Owner, Since: e.Since, Waiting: !e.Held(),
			Remaining: e.Expires.Sub(img.Now), AtLeast: max(0, e.Until.Sub(img.Now)),
			InContext: ours, InProcess: l.leases.Valid(e.ID),
		})
	}
	return all
}

// explain names the causes that a user can remove.
func explain(command string, err error) error {
	switch engine.AsFailure(err).Cause {
	case engine.CauseForeign:
		return fmt.Errorf("%w: %w", doclock.ErrForeignLock, err)
	case engine.CauseUnsupported:
		return fmt.Errorf("%w: %w", doclock.ErrUnsupportedServer, err)
	case engine.CauseValidator:
		return fmt.Errorf("doclock: %s: the collection's validator refuses the lock field; allow it there: %w", command, err)
	case engine.CauseView:
		return fmt.Errorf("doclock: %s: the collection is a view; lock in the collection behind it: %w", command, err)
	case engine.CauseCapped:
		return fmt.Errorf("doclock: %s: the collection is capped, its documents can't grow; lock in another one: %w", command, err)
	case engine.CauseShardKey:
		return fmt.Errorf("doclock: %s: the collection is sharded; the filter needs an equality on every field of its shard key, and the Locker the option ShardKey: %w", command, err)
	default:
		return fmt.Errorf("doclock: %s: %w", command, err)
	}
}

// notFound is a [doclock.ErrNotFound] that says where the acquire has looked, and for
// what. Its text is made only if somebody reads it.
type notFound struct {
	namespace string
	filter    engine.Filter
	noneFree  bool // of a claim: documents match, or may match, but none of them is free
	mayUpsert bool // the option Upsert would make the document
	unmet     bool // it would, but for a condition of the filter
}

// notFound is that of an acquire, or of a claim that has found none free.
func (c *call) notFound() error {
	return &notFound{
		namespace: c.locker.engine.Namespace(), filter: c.filter, noneFree: c.skip,
		mayUpsert: !c.skip && !c.locker.engine.Upsert && c.filter.Exact,
		unmet:     c.locker.engine.Upsert && c.filter.Unmet != "",
	}
}

// Is is for [errors.Is].
func (e *notFound) Is(target error) bool { return target == doclock.ErrNotFound }

func (e *notFound) Error() string { return doclock.ErrNotFound.Error() + e.where() + e.hints() }

// where names the collection, and the _id or else the filter with its conditions.
func (e *notFound) where() string {
	switch {
	case e.noneFree:
		return fmt.Sprintf(": none of %s that matches %s is free", e.namespace, cut(e.filter.String()))
	case !e.filter.Exact:
		return fmt.Sprintf(": %s has none that matches %s", e.namespace, cut(e.filter.String()))
	case len(e.filter.Pin) == 1:
		return fmt.Sprintf(": %s has none with _id %s", e.namespace, cut(bsonvalue.Readable(e.filter.Pin.ID())))
	default:
		return fmt.Sprintf(": %s has none with _id %s and this shard key", e.namespace, cut(bsonvalue.Readable(e.filter.Pin.ID())))
	}
}

var hexOfObjectID = regexp.MustCompile(`^[0-9a-fA-F]{24}$`)

// hints are what the caller may have meant. A string may name a lock, whose document
// Upsert makes; other documents have data, and their _id may be of another type.
func (e *notFound) hints() (text string) {
	id, demanded := e.filter.EqualID()
	s, isString := id.StringValueOK()
	switch {
	case isString && hexOfObjectID.MatchString(s):
		text = "; the _id is a string: should it be an ObjectID?"
	case e.mayUpsert && isString:
		text = "; doclock.Upsert() would make it"
	case demanded && !e.noneFree && !e.unmet:
		text = fmt.Sprintf("; the _id is of type %v", id.Type)
	}
	if e.unmet {
		text += fmt.Sprintf("; doclock.Upsert() makes none, because of the condition on %q", cut(e.filter.Unmet))
	}
	return text
}

// cut shortens a text that a caller's value has made.
func cut(text string) string {
	const most = 120
	if len(text) <= most {
		return text
	}
	end := most
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// observed is an acquire with an observer. Without an observer there is none, and
// no event.
type observed struct {
	call    *call
	share   *share          // whose users emit the events of the wait, or nil
	ctx     context.Context // with the values of the caller's
	sent    atomic.Int64    // commands
	waited  atomic.Bool     // Waiting was emitted
	unknown atomic.Bool     // OutcomeUnknown was, of its ticket's removal

	mu       sync.Mutex
	document bson.RawValue // the _id that the last answer has shown, or that the filter demands
	behind   error         // the last conflict that named holders, of an acquire that waits
	over     bool          // the event of its end was emitted
}

// observed is that of an acquire with this context, or nil.
func (l *Locker) observed(ctx context.Context, a *call) *observed {
	if l.observer == nil {
		return nil
	}
	return &observed{call: a, ctx: attempt.Detached(ctx), document: documentOf(a.filter.Pin)}
}

// delegate is that of an acquire whose users emit its events, each his own.
func (o *observed) delegate(s *share) *observed {
	if o == nil {
		return nil
	}
	return &observed{call: o.call, share: s, ctx: o.ctx}
}

// nameDocument has the events name this document from now on.
func (o *observed) nameDocument(document bson.RawValue) {
	if o == nil {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.document = document
}

// lookAt has the events name the document of an image, if there is one.
func (o *observed) lookAt(img *engine.Image) {
	if img != nil {
		o.nameDocument(img.ID)
	}
}

// count is ctx for the acquire's commands: they are counted.
func (o *observed) count(ctx context.Context) context.Context {
	if o == nil {
		return ctx
	}
	return engine.WithSending(ctx, &engine.Sending{Each: func() { o.sent.Add(1) }})
}

// errPanicked is the end of an acquire whose caller has panicked in its own decoding.
var errPanicked = fmt.Errorf("%w: the caller's own decoding has panicked", doclock.ErrReleased)

// emitEnd emits, once, how the acquire has ended: with neither a lease nor an error, by
// a panic. ctx is what bounded it. The lease's later events are the caller's.
func (o *observed) emitEnd(ctx context.Context, held *lease.Lease, err error) (events *lease.Announcement) {
	if o == nil {
		return nil
	}
	o.mu.Lock()
	over := o.over
	o.over = true // only its caller emits an event after it
	o.mu.Unlock()
	if over {
		return nil
	}
	if held == nil && err == nil {
		err = errPanicked
	}
	if held != nil {
		e := o.event(doclock.EventGranted, nil)
		e.Holders = lease.HoldersIn(o.behind)
		return held.Announce(o.ctx, e)
	}
	e := o.event(doclock.EventNotGranted, notAcquired(err))
	if e.How = doclock.HowGaveUp; refused(ctx, err) {
		e.How = doclock.HowRefused
	}
	o.emit(e)
	return nil
}

// refused is true of a refusal, and not of the end of a wait, which names a conflict
// too.
func refused(ctx context.Context, err error) bool {
	return !endedBy(ctx, err) && (errors.Is(err, doclock.ErrConflict) || errors.Is(err, doclock.ErrNotFound))
}

// emitUnknown emits, once, that the removal of a ticket's entry may have been
// executed, if the error that the caller gets says so. Several callers of Cancel may
// wait for one removal.
func (o *observed) emitUnknown(err error) {
	if o != nil && errors.Is(err, doclock.ErrOutcomeUnknown) && !o.unknown.Swap(true) {
		o.emit(o.event(doclock.EventOutcomeUnknown, err))
	}
}

// emitSkipped emits that a claim has passed over the document.
func (o *observed) emitSkipped(err error) {
	if o != nil {
		o.emitBeforeEnd(o.event(doclock.EventSkipped, err))
	}
}

// emitWaiting emits, once, that the acquire waits from now on, behind the entries of
// the conflict.
func (o *observed) emitWaiting(conflict error) {
	if o == nil {
		return
	}
	if c := (*doclock.ConflictError)(nil); errors.As(conflict, &c) && len(c.Holders) > 0 {
		o.mu.Lock()
		o.behind = conflict
		o.mu.Unlock()
	}
	switch first := !o.waited.Swap(true); {
	case first && o.share != nil:
		close(o.share.waits)
	case first:
		e := o.event(doclock.EventWaiting, nil)
		e.Holders = lease.HoldersIn(conflict)
		o.emitBeforeEnd(e)
	}
}

// emitQueued emits that the acquire waits, if it has to wait in its wait queue.
func (o *observed) emitQueued(w *waitqueue.Waiter) {
	if o == nil {
		return
	}
	if refused, _ := o.call.progress.report(); refused != nil {
		o.emitWaiting(refused)
	} else if o.call.locker.queues.Asleep(w) {
		o.emitWaiting(o.call.knownConflict())
	}
}

// remind emits, once, that the acquire still waits when it has taken the Locker's
// TTL, unless stop is called before.
func (o *observed) remind() (stop func()) {
	if o == nil || o.share != nil {
		return func() {}
	}
	e, begun, l := o.event(doclock.EventWaiting, nil), o.call.begun, o.call.locker
	e.How = doclock.HowStill
	timer := time.AfterFunc(l.engine.TTL-e.Waited, func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.over {
			return
		}
		now := l.engine.Clocks()
		e.Time, e.Waited, e.Commands, e.Holders = now.Wall, now.Mono-begun, int(o.sent.Load()), lease.HoldersIn(o.behind)
		o.emit(e)
	})
	return func() { timer.Stop() }
}

func (o *observed) event(kind doclock.EventKind, err error) doclock.Event {
	c, now := o.call, o.call.locker.engine.Clocks()
	o.mu.Lock()
	defer o.mu.Unlock()
	return doclock.Event{
		Kind: kind, Time: now.Wall, DocumentID: o.document, Tag: c.request.Tag,
		Owner:  cmp.Or(c.request.Terms.Owner, c.locker.engine.Owner),
		Waited: now.Mono - c.begun, Commands: int(o.sent.Load()), Err: err,
	}
}

// emitBeforeEnd emits an event of the acquire's goroutine, unless its caller has left.
func (o *observed) emitBeforeEnd(e doclock.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !o.over {
		o.emit(e)
	}
}

func (o *observed) emit(e doclock.Event) { o.call.locker.observer.Emit(o.ctx, e) }

// documentOf is the _id that a pin names, or the zero value without a pin.
func documentOf(pin engine.Pin) bson.RawValue {
	if pin == nil {
		return bson.RawValue{}
	}
	return pin.ID()
}

// emitFailed emits, once for an entry, that the server has refused to remove it, or that
// it was not removed before its life was over. Without a pin the document is not known.
func (l *Locker) emitFailed(document bson.RawValue, tag string, id uuid.UUID, err error) {
	if l.observer != nil {
		l.observer.Emit(context.Background(), doclock.Event{
			Kind: doclock.EventCleanUpFailed, Time: l.engine.Clocks().Wall, DocumentID: document, Tag: tag, LeaseID: id, Err: err,
		})
	}
}
