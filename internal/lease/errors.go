package lease

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
)

// name names the lease in errors.
func (l *Lease) name() string {
	return fmt.Sprintf("%q on document %s of %s", l.grant.Tag, bsonvalue.Readable(l.grant.Pin.ID()), l.engine.Namespace())
}

// released is a lease as its own [doclock.ErrReleased], which costs nothing before
// somebody reads it.
type released Lease

func (r *released) Error() string { return doclock.ErrReleased.Error() + ": " + (*Lease)(r).name() }

func (r *released) Is(target error) bool { return target == doclock.ErrReleased }

// Released is the error of a caller who has left the lease.
func (l *Lease) Released() error { return (*released)(l) }

func (l *Lease) inTransaction() error {
	return fmt.Errorf("%w: %v: a lease's own methods don't take part in it; inside it, write with Guard as the filter", doclock.ErrInTransaction, l.name())
}

// failed is the error of a command that was certainly not executed.
func (l *Lease) failed(command string, cause error) error {
	return &notExecuted{error: fmt.Errorf("doclock: %s: %v: %w", command, l.name(), cause)}
}

// notExecuted marks the error of a command that the server refused, or that was not
// sent.
type notExecuted struct {
	error
	revoked bool // by its caller, before it was sent
}

func (e *notExecuted) Unwrap() error { return e.error }

// revoked says that the caller has revoked the command before it was sent.
func revoked(err error) bool {
	var e *notExecuted
	return errors.As(err, &e) && e.revoked
}

// Unsent says that an Update was not sent: its caller goes on with the lease.
func Unsent(err error) bool {
	return revoked(err) || errors.Is(err, doclock.ErrInvalidArgument) || errors.Is(err, doclock.ErrInTransaction)
}

// repeatable says of a release's error that the entry still stands, unless it has
// expired: the server refused the release, or it was not sent.
func repeatable(err error) bool { return err != nil && errors.As(err, new(*notExecuted)) }

// isVerdict says that a release's error, or none, tells what became of the lock.
func isVerdict(err error) bool { return !repeatable(err) || errors.Is(err, doclock.ErrOutcomeUnknown) }

// Judge is a release's error as a verdict on the lock at this moment. A release that was not
// executed says nothing of the lock by itself. While the lease's time lasts, the
// server lets nobody in but by a break or a take-over. After that nobody knows. Nor does anybody know after a
// server has found no entry, without a proof, or after a conversion of unknown outcome.
func (l *Lease) Judge(err error) error {
	l.mu.Lock()
	doubted := l.doubt != nil
	l.mu.Unlock()
	switch {
	case isVerdict(err):
		return err
	case engine.AsFailure(err).Unproven:
		return fmt.Errorf("%w: the entry was not found, and others may have been let in: %w", doclock.ErrOutcomeUnknown, err)
	case doubted:
		return fmt.Errorf("%w: a conversion may have been executed, and others may have been let in: %w", doclock.ErrOutcomeUnknown, err)
	case l.left() <= 0:
		return fmt.Errorf("%w: the lease's time is up, and others may have been let in: %w", doclock.ErrOutcomeUnknown, err)
	default:
		return err
	}
}

// unknown is the error of a command that may have been executed, or may be yet.
func (l *Lease) unknown(command string, cause error) error {
	return fmt.Errorf("%w: %s: %v: %w", doclock.ErrOutcomeUnknown, command, l.name(), cause)
}

// noAnswer is the error of a command without an answer: one of its attempts may have been
// executed, if unsure is set, and else none was.
func (l *Lease) noAnswer(command string, unsure, err error) error {
	if unsure != nil {
		return l.unknown(command, unsure)
	}
	return l.failed(command, err)
}

// notSent is the error of a caller whose context ended before the command was sent. The
// reason may be that none can be.
func (l *Lease) notSent(ctx context.Context) error {
	return fmt.Errorf("doclock: nothing was sent: %v: %w", l.name(), oneline.Join(attempt.Ended(ctx), l.commands.Unreachable()))
}

// gaveUp is the error of a caller whose context ended during a command.
func (l *Lease) gaveUp(ctx context.Context) error {
	return oneline.Join(attempt.Ended(ctx), fmt.Errorf("%w: %v", doclock.ErrOutcomeUnknown, l.name()))
}

// Conflict is the conflict with these entries of an image, some of which are stuck.
func (ls *Leases) Conflict(img *engine.Image, tag string, entries []engine.Entry, free time.Duration, stuck *engine.Image) error {
	return &doclock.ConflictError{Collection: ls.engine.Namespace(), DocumentID: img.ID, Tag: tag, RetryAfter: free, Holders: ls.holders(img, entries, stuck)}
}

// Missing is the loss of an entry that an answer doesn't show.
func (ls *Leases) Missing(g *engine.Grant, got engine.Answer) *doclock.LostError {
	e := ls.loss(g, doclock.LossEntryRemoved, ls.engine.Clocks().Wall)
	if got.Gone {
		e.Reason = doclock.LossDocumentDeleted
	}
	if got.Image != nil {
		entries, _ := ls.engine.InTheWay(got.Image, g.Tag, nil)
		entries = slices.DeleteFunc(entries, func(e engine.Entry) bool { return !e.Held() || e.ID == g.ID }) // a late repeat may have made its own again
		e.Holders = ls.holders(got.Image, entries, &engine.Image{})
	}
	return e
}

func (ls *Leases) loss(g *engine.Grant, reason doclock.LossReason, since time.Time) *doclock.LostError {
	return &doclock.LostError{
		Collection: ls.engine.Namespace(), DocumentID: g.Pin.ID(), Tag: g.Tag, Owner: g.Owner, Reason: reason, Since: since,
	}
}

// holders are these entries of an image, as errors show them.
func (ls *Leases) holders(img *engine.Image, entries []engine.Entry, stuck *engine.Image) (all []doclock.Holder) {
	for _, e := range entries {
		_, ours := stuck.Lock.Find(e.Tag, e.ID)
		_, known := ls.engine.Rules()[e.Tag]
		all = append(all, doclock.Holder{
			Tag: e.Tag, ID: e.ID, Fence: e.Fence, Owner: e.Owner, Since: e.Since, Waiting: !e.Held(),
			Remaining: max(0, e.Expires.Sub(img.Now)), AtLeast: max(0, e.Until.Sub(img.Now)),
			InContext: ours, InProcess: ls.Valid(img.ID, e.ID), UnknownTag: !known,
		})
	}
	return all
}

// verdicts are what the error of a call says of the call's own lock.
var verdicts = []error{doclock.ErrNotAcquired, doclock.ErrLost, doclock.ErrOutcomeUnknown}

// Verdict is the verdict in an error, or nil.
func Verdict(err error) error {
	for _, verdict := range verdicts {
		if errors.Is(err, verdict) {
			return verdict
		}
	}
	return nil
}

// Only is err with this verdict, or with none. The other verdicts in it are of
// other locks, or of a write: they stay in the text.
func Only(verdict, err error) error {
	for _, other := range verdicts {
		if other != verdict && errors.Is(err, other) {
			return &ofOne{err, verdict}
		}
	}
	return err
}

// Beside is the error of a call that has held a lock: what its function returned,
// and what the release says of the lock.
func Beside(returned, released error) error {
	return oneline.Join(Only(nil, returned), released)
}

// ofOne hides the verdicts of an error from [errors.Is] and [errors.As], all but one. It
// can't be unwrapped, because that would bring them back.
type ofOne struct {
	error
	verdict error
}

func (o *ofOne) Is(target error) bool {
	for _, v := range verdicts {
		if target == v {
			return v == o.verdict
		}
	}
	return errors.Is(o.error, target)
}

// As is for [errors.As]. An error is hidden that says itself that it is a hidden verdict.
func (o *ofOne) As(target any) bool {
	if !errors.As(o.error, target) {
		return false
	}
	found := reflect.ValueOf(target).Elem()
	own, says := found.Interface().(interface{ Is(target error) bool })
	if says && slices.ContainsFunc(verdicts, func(v error) bool { return v != o.verdict && own.Is(v) }) {
		found.SetZero()
		return false
	}
	return true
}
