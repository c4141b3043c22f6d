package multilock

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
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

// refusal is what the caller of an acquire gets: no other verdict is its own. A panic of his
// command monitor is raised.
func refusal(err error) error {
	return lease.Only(doclock.ErrNotAcquired, engine.Raise(notAcquired(err)))
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
		if of, _ := h.Place(); standing && !again && of.SameClient(c.locker.engine) && c.isOf(h) {
			img.Lock.Entries = append(img.Lock.Entries, entry)
		}
	}
	entries, free := c.locker.engine.InTheWay(img, c.request.Tag, nil)
	if len(entries) == 0 {
		return nil
	}
	img.ID = c.filter.Pin.ID()
	err := c.locker.leases.Conflict(img, c.request.Tag, entries, free, img)
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
	stuck := c.locker.engine.Stuck(img, standing(c.holding, img.ID))
	held := &engine.Image{Now: img.Now}
	held.Lock.Entries = slices.DeleteFunc(slices.Clone(stuck.Lock.Entries), func(e engine.Entry) bool { return !e.Held() })
	for _, some := range []*engine.Image{held, stuck, img} {
		if entries, free := c.locker.engine.InTheWay(some, c.request.Tag, own); len(entries) > 0 {
			return c.locker.leases.Conflict(img, c.request.Tag, entries, free, stuck)
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

// standing are the ids of the entries that these leases have in a document.
func standing(held []*lease.Lease, document bson.RawValue) (ids []uuid.UUID) {
	for _, h := range held {
		if _, standing := h.Standing(); standing && h.DocumentID().Equal(document) {
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

// where names the tag and the document of an acquire, for an error that has neither.
func (c *call) where() string {
	if c.filter.Pin == nil {
		return fmt.Sprintf(" %q in %s", c.request.Tag, c.locker.engine.Namespace())
	}
	return fmt.Sprintf(" %q on document %s of %s", c.request.Tag, cut(bsonvalue.Readable(c.filter.Pin.ID())), c.locker.engine.Namespace())
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
		text = "; doclock.Upsert() makes a lock that has no other data"
	case demanded && e.filter.Exact && !e.noneFree: // else another condition may be what it didn't meet
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
