package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
)

// What the contracts promise of the calls in orders_test.go.

// ending is what is known of the call that has ended the lease, or may have.
type ending struct {
	final bool  // there is one
	word  error // what it said; a release repeats it
	left  bool  // its caller has left: nobody has heard the answer yet
	doubt bool  // it was a Detach, and a release may follow
}

// open says that a release may still be sent.
func (e ending) open() bool { return e.final && (e.doubt || e.left) }

// answer is that of one call, with what was known before it.
type answer struct {
	orderCall
	err    error
	met    string
	elects bool // it met an election: its outcome may be unknown
	before ending
	was    error // the lease's Err
	stood  bool  // the lease's entry
	calm   bool  // no command was under way
	write  int   // its number, if it writes
}

func (a *answer) is(target error) bool { return errors.Is(a.err, target) }

// left says that the caller has left.
func (a *answer) left() bool { return a.is(context.DeadlineExceeded) }

// refused says that the server has refused the command.
func (a *answer) refused() bool { return codeOf(a.err) == refusal.Code }

func wordOf(err error) string {
	for _, word := range []error{doclock.ErrLost, doclock.ErrOutcomeUnknown, doclock.ErrReleased, doclock.ErrConflict} {
		if errors.Is(err, word) {
			return word.Error()
		}
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) { // without the document, which each order has its own of
		err = cause
	}
	return fmt.Sprint(err)
}

func (o *order) fault(format string, args ...any) {
	o.Helper()
	o.Errorf("%v: %s", o.done, fmt.Sprintf(format, args...))
}

// consistent checks what a lease says of itself.
func (o *order) consistent() {
	err := o.lease.Err()
	over := errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrReleased)
	select {
	case <-o.lease.Done():
		if !over {
			o.fault("Done is closed, and Err is %v", err)
		}
	default:
		if over {
			o.fault("Done is open, and Err is %v", err)
		}
	}
	if left := o.lease.Remaining(); (left > 0) != (err == nil) {
		o.fault("%v left, and Err is %v", left, err)
	}
}

// call makes a call and judges its answer.
func (o *order) call(c orderCall, met orderFault) {
	a := o.ask(c, met)
	if met.end != nil {
		met.end(o)
	}
	o.disarm()
	o.heard(a)
	o.words(a)
	if !a.calm || a.left() || a.refused() {
		return
	}
	o.truth(a)
	o.promise(a)
}

// ask makes a call.
func (o *order) ask(c orderCall, met orderFault) *answer {
	d, _ := o.read()
	_, stood := d.entry(o.lease)
	a := &answer{
		orderCall: c, met: met.name, elects: met.end != nil, before: o.ending, was: o.lease.Err(), stood: stood,
		calm: !time.Now().Before(o.busy), write: len(o.writes),
	}
	ctx := o.Context()
	if met.name == callerLeft.name {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, slow/2)
		defer cancel()
	}
	met.arm(o, c)
	a.err = c.send(o, ctx)
	return a
}

// heard notes an answer.
func (o *order) heard(a *answer) {
	o.errs = append(o.errs, a.err)
	if a.write < len(o.writes) && (a.name == "Update" || a.name == "UpdateAndRelease") {
		o.writes[a.write] = a.err
	}
	if a.left() {
		o.busy = time.Now().Add(time.Minute)
	}
	o.detached = o.detached || a.name == "Detach" && a.err == nil
	unknown := a.is(doclock.ErrOutcomeUnknown)
	switch {
	case a.refused() && a.kind == locktest.Writes && a.ends: // the lock is released by a command of its own
		o.ending = ending{final: true}
		if a.is(doclock.ErrLost) || unknown {
			o.word = a.err
		}
	case a.refused(): // the lease goes on
	case !o.final && a.ends && !a.is(doclock.ErrReleased) && !(a.name == "Downgrade" && a.is(doclock.ErrLost)):
		o.ending = ending{final: true, word: a.err, left: a.left(), doubt: a.name == "Detach" && unknown}
	case a.name == "Release" && o.open():
		o.ending = ending{final: true, word: a.err, left: a.left()}
	}
}

// words checks the words of an answer.
func (o *order) words(a *answer) {
	isLost, isUnknown, isReleased := a.is(doclock.ErrLost), a.is(doclock.ErrOutcomeUnknown), a.is(doclock.ErrReleased)
	repeats := a.name == "Release" && a.before.final && (a.before.word == nil || a.before.left)
	switch {
	case isLost && isUnknown, isLost && isReleased, isUnknown && isReleased:
		o.fault("two words: %v", a.err)
	case a.err != nil && !isLost && !isUnknown && !isReleased && !a.left() && !a.refused() && !(a.name == "Renew" && a.met == allReplies.name):
		o.fault("%v", a.err)
	case a.err == nil && o.theirs != nil && !repeats:
		o.fault("it returned nil, and another client was let in")
	}
}

// truth compares what an answer says with the document.
func (o *order) truth(a *answer) {
	if now := o.lease.Err(); o.final && !errors.Is(now, doclock.ErrReleased) && !errors.Is(now, doclock.ErrLost) {
		o.fault("it returned %v, and Err is %v", a.err, now)
	}
	d, there := o.read()
	e, stands := d.entry(o.lease)
	switch {
	case a.err == nil && (a.name == "Update" || a.name == "UpdateAndRelease"):
		if d.count(a.write) != 1 {
			o.fault("it returned nil, and the log is %v", d.Log)
		}
	case a.err == nil && a.name == "Delete" && there:
		o.fault("it returned nil, and the document stands")
	case a.err == nil && a.name == "Detach" && (!stands || !e.Detached):
		o.fault("it returned nil, and the entry is %+v", e)
	case a.err == nil && a.name == "Downgrade":
		if _, made := d.entry(o.below); !made || stands {
			o.fault("it returned nil, and the document has %+v", d.Lock)
		}
	case a.is(doclock.ErrLost) && stands && time.Now().Before(e.Expires) && a.name != "Renew" && a.was == nil:
		o.fault("%v, and the entry stands", a.err)
	}
	if a.err == nil && (a.name == "UpdateAndRelease" || a.name == "Release" && !a.before.final) && stands {
		o.fault("it returned nil, and the entry stands")
	}
}

// promise compares an answer with what was known before.
func (o *order) promise(a *answer) {
	before, err := a.before, a.err
	isLost, isReleased := a.is(doclock.ErrLost), a.is(doclock.ErrReleased)
	switch {
	case a.name == "Release" && before.open():
	case a.name == "Release" && before.final:
		if !errors.Is(err, before.word) && !(err == nil && before.word == nil) {
			o.fault("it returned %v after %v", err, before.word)
		}
	case before.final && !isReleased && !isLost:
		o.fault("%v after the lease's end", err)
	case a.elects && isLost && a.stood && a.was == nil:
		o.fault("%v, and nobody else was there", err)
	case before.final, a.met == allReplies.name, a.elects && a.is(doclock.ErrOutcomeUnknown):
	case a.name == "Renew":
		if (err == nil) != (a.was == nil && a.stood) && !a.is(doclock.ErrOutcomeUnknown) {
			o.fault("%v; Err was %v, and the entry stood: %v", err, a.was, a.stood)
		}
	case a.stood && a.was == nil && err != nil:
		o.fault("%v, though the lease was valid", err)
	case a.stood && a.met == "" && err != nil && a.name != "Downgrade" && !errors.Is(a.was, doclock.ErrReleased) && !o.known():
		o.fault("%v, though the entry stood", err)
	case !a.stood && err == nil && a.met == "":
		o.fault("nil, though the entry was gone")
	}
}

// known says that an earlier answer has said that the entry is gone.
func (o *order) known() bool {
	return slices.ContainsFunc(o.writes, func(err error) bool { return err != nil })
}
