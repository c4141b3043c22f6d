package lease

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// This file has the commands that end a lease. One of them is sent at a time, and has a
// verdict, which a later Release returns too.

// verdict is how the command ended that ends the lease.
type verdict struct {
	err     error
	done    chan struct{}
	unknown bool // the event of the unknown outcome was emitted
}

func (l *Lease) Release(ctx context.Context) error { return engine.Raise(l.Unlock(ctx)) }

// Unlock is Release for goroutines that are not the caller's: it raises no panic of a
// command monitor of his.
func (l *Lease) Unlock(ctx context.Context) error {
	if engine.InTransaction(ctx) {
		return l.inTransaction()
	}
	v, first := l.claim()
	if first {
		l.begin(attempt.Detached(ctx), v)
	}
	return l.Judge(l.await(ctx, v))
}

// begin begins a release by itself, and settles the verdict.
func (l *Lease) begin(ctx context.Context, v *verdict) {
	l.ops.Go(func() {
		_ = l.lockWrites(ctx) // which has no end
		defer l.unlockWrites()
		if l.giveWay(ctx, v) {
			return
		}
		l.renewing <- struct{}{}
		defer l.renewing.Unlock()
		if err := l.isUndecided(); err != nil { // nobody may be let in before its time is up
			l.giveUp()
			l.conclude(ctx, v, err)
			l.ended(Ending{How: Detached})
			return
		}
		l.depart(ctx, v, l.handoff(), nil)
	})
}

// claim claims the right to release the lease; only the first caller has it.
func (l *Lease) claim() (v *verdict, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.release != nil {
		return l.release, false
	}
	l.release = &verdict{done: make(chan struct{})}
	return l.release, true
}

// await waits for the verdict, for as long as the caller does. It waits for an attempt by
// itself if the caller's context had ended before the call, as in a defer.
func (l *Lease) await(ctx context.Context, v *verdict) error {
	if attempt.IsClosed(v.done) {
		return v.err
	}
	caller, stop := l.callerContext(ctx)
	defer stop()
	left := caller.Done()
	if l.callerLeft(ctx) {
		over, cancel := context.WithTimeout(context.WithoutCancel(ctx), l.bounds().Timeout)
		defer cancel()
		left = over.Done()
	}
	select {
	case <-v.done:
		return v.err
	case <-left:
		select {
		case <-v.done:
			return v.err
		case <-caller.Done():
		}
		err := l.gaveUp(caller)
		l.emitUnknown(caller, v, err)
		return err
	}
}

// depart sends the release, and settles the verdict. unsure is set if a command before it may
// have released the lease.
func (l *Lease) depart(ctx context.Context, v *verdict, to *handoff, unsure error) {
	err := l.sendRelease(ctx, to, unsure)
	l.conclude(ctx, v, err)
	to.close(err)
}

// giveWay begins a release, or says that the lease is replaced: it needs none, and the
// conversion has the verdict.
func (l *Lease) giveWay(ctx context.Context, v *verdict) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.phase != replaced {
		l.become(ending)
		return false
	}
	v.unknown = v.unknown || errors.Is(l.doubt, doclock.ErrOutcomeUnknown) // which the conversion's caller knows
	l.publish(ctx, v, "", l.doubt)
	return true
}

// sendRelease sends the release and judges its answer. ctx has no end. The entry's life is
// the end: after it the server lets others in without a release. A handoff that finds
// nothing is followed by a plain release, because the id may stand there with
// another fencing token. A lost lease is released too: a late duplicate may have
// brought its id back. It stays lost, whatever the server answers.
func (l *Lease) sendRelease(ctx context.Context, to *handoff, unsure error) error {
	known := l.declaredLoss()
	// It is sent even if its caller has given up.
	ctx = engine.WithSending(ctx, l.sending(nil))
	l.giveUp() // before anything is sent
	first := l.engine.Clocks()
	got, again, err := settle(ctx, l, func(ctx context.Context) (engine.Answer, error) { // the answer says nothing of an earlier attempt
		done, err := to.release(ctx, first)
		if done || err != nil {
			return engine.Answer{Outcome: engine.Released}, err
		}
		return l.commands.Release(ctx, l.last())
	})
	switch unsure = cmp.Or(again, unsure); {
	case known != nil:
		return oneline.Join(known, engine.PanicIn(err))
	case err != nil:
		return l.Judge(l.noAnswer("release", unsure, err))
	default:
		return l.removed(ctx, "release", got, unsure)
	}
}

// removed is the verdict on a command that removes the entry from the
// document, and was answered.
func (l *Lease) removed(ctx context.Context, command string, got engine.Answer, unsure error) error {
	switch {
	case got.Outcome == engine.Released:
		return nil
	case unsure == nil:
		return l.lose(got)
	case l.last().Key != uuid.Nil:
		return l.taken(ctx, command, unsure)
	case l.left() <= 0:
		return l.unknown(command, unsure)
	}
	// Nobody but an earlier attempt can have removed it, or an operator.
	img := got.Image
	if img == nil && !got.Gone {
		var err error
		if img, err = l.read(ctx); err != nil {
			return l.unknown(command, oneline.Join(unsure, err))
		}
	}
	if reason := l.suspect(img); reason != nil && (img != nil || command != "delete") {
		return l.unknown(command, fmt.Errorf("%w: %w", reason, unsure))
	}
	return nil
}

// suspect is why others may have ended the entry, which the image doesn't have, or nil. A
// release deletes no document: who did may have been let in before it.
func (l *Lease) suspect(img *engine.Image) error {
	switch {
	case img == nil:
		return errors.New("the document is gone")
	case img.Lock.Fence < l.grant.Fence:
		return errors.New("the document has another lock")
	case img.Lock.Broken >= l.grant.Fence:
		return errors.New("a break or a take-over has removed the entry, or a later one")
	default:
		return nil
	}
}

// last is the grant as the release names it: after a detach of unknown outcome
// the entry may have a key, and a lock that nobody used leaves no remainder.
func (l *Lease) last() engine.Grant {
	l.mu.Lock()
	defer l.mu.Unlock()
	g := l.grant
	if l.key != uuid.Nil {
		g.Key = l.key
	}
	if l.unused {
		g.Until = time.Time{}
	}
	return g
}

// conclude is the end of a release, UpdateAndRelease or Delete. If it was refused, the
// entry still stands, and a later call may try again.
func (l *Lease) conclude(ctx context.Context, v *verdict, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.publish(ctx, v, "", err) {
		return
	}
	switch {
	case !repeatable(err):
		l.become(gone)
		return
	case l.key != uuid.Nil:
		l.become(detached)
	default:
		l.become(held)
	}
	l.reopen(v)
}

// reopen lets a later call end the lease, unless one has come already: its verdict stays.
// The lease is locked.
func (l *Lease) reopen(v *verdict) {
	if l.release == v {
		l.release = nil
	}
}

// publish publishes the verdict, unless the caller who has revoked the command has. A
// lease that goes on has no event of its end. The lease is locked.
func (l *Lease) publish(ctx context.Context, v *verdict, how doclock.EventHow, err error) bool {
	if attempt.IsClosed(v.done) {
		return false
	}
	if !repeatable(err) || l.cause != nil {
		l.emitVerdict(ctx, v, how, err)
	}
	v.err = err
	close(v.done)
	return true
}

func (l *Lease) UpdateAndRelease(ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
	u, err := l.prepare(ctx, update, opts)
	if err != nil {
		return err
	}
	return l.end(ctx, func(ctx context.Context, to *handoff) (err, released error) {
		if !u.Releases(l.grant) {
			return l.writeAndRelease(ctx, to, u)
		}
		first := l.engine.Clocks()
		return l.sendLast(ctx, "update", to, func(ctx context.Context) (engine.Answer, error) {
			done, err := to.writeAndRelease(ctx, first, u)
			if done || err != nil {
				return engine.Answer{Outcome: engine.Applied}, err
			}
			return l.commands.WriteAndRelease(ctx, l.grant, u)
		}, l.lastWritten)
	})
}

// lastWritten is the verdict on an update that released the lock. `done` shows
// whether an earlier attempt was applied.
func (l *Lease) lastWritten(ctx context.Context, to *handoff, got engine.Answer, unsure error) error {
	switch {
	case got.Outcome == engine.Applied:
		return nil
	case unsure == nil:
		return l.lose(got)
	}
	img, err := l.read(ctx)
	switch {
	case err != nil:
		err = l.unknown("update", oneline.Join(unsure, err))
	case img != nil && img.Lock.FinishedBy(l.grant.ID):
		err = nil
	case provesNotApplied(img, l.grant):
		err = l.lose(engine.Answer{Image: img})
	default:
		err = l.unknown("update", unsure)
	}
	_ = l.sendRelease(attempt.Detached(ctx), to, nil) // a late duplicate may have brought the id back
	return err
}

func (l *Lease) Delete(ctx context.Context) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	if other := notExcluded(l.engine.Rules(), l.Tag()); other != "" {
		return fmt.Errorf("%w: Delete under %q, which does not exclude %q: a lease of that tag would go on beside another document of this _id; "+
			"delete under a tag that excludes all tags of the rules", doclock.ErrInvalidArgument, l.Tag(), other)
	}
	return l.end(ctx, func(ctx context.Context, to *handoff) (err, released error) {
		return l.sendLast(ctx, "delete", to, func(ctx context.Context) (engine.Answer, error) { return l.commands.Delete(ctx, l.grant) }, l.deleted)
	})
}

// notExcluded is a tag that may be held beside this one, or "". They exclude each other
// if both are in the other's way, whichever came first, and without an allowance.
func notExcluded(rules relations.Rules, tag string) string {
	excludes := func(x, y string) bool { return rules[x][y].Kind != relations.None && rules[x][y].Allow == 0 }
	for _, other := range rules.Tags() {
		if !excludes(tag, other) || !excludes(other, tag) {
			return other
		}
	}
	return ""
}

// deleted is the verdict on a delete. After an attempt of unknown outcome the
// entry may be gone because an operator or an outside writer has removed it: a
// document that stands was not deleted, or was made anew.
func (l *Lease) deleted(ctx context.Context, _ *handoff, got engine.Answer, unsure error) error {
	if got.Outcome == engine.Lost && unsure != nil && l.last().Key == uuid.Nil {
		img, err := l.read(ctx)
		if img != nil || err != nil {
			return l.unknown("delete", oneline.Join(unsure, err))
		}
	}
	return l.removed(ctx, "delete", got, unsure)
}

// end ends the lease with commands, whose verdict last returns, and the lock's.
func (l *Lease) end(ctx context.Context, last func(context.Context, *handoff) (err, released error)) error {
	v, err := l.claimAll(ctx)
	if err != nil {
		return err
	}
	err = l.run(ctx, l.sending(l.giveUp), func(ctx context.Context) error {
		defer l.unlockAll()
		to := l.handoff()
		err, released := last(ctx, to)
		l.conclude(ctx, v, released)
		to.close(released)
		return err
	})
	return engine.Raise(l.tell(ctx, v, err, l.conclude))
}

// tell is the end of a last command for its caller. One that he has revoked is concluded here:
// nobody else does. Observers hear of an unknown outcome what he is told.
func (l *Lease) tell(ctx context.Context, v *verdict, err error, conclude func(context.Context, *verdict, error)) error {
	if revoked(err) {
		conclude(ctx, v, err)
		err = l.Judge(err)
	}
	l.emitUnknown(ctx, v, err)
	return err
}

// claimAll claims the right to end the lease, for a command that isn't sent if its caller
// gives up, and keeps writes and renewals out.
func (l *Lease) claimAll(ctx context.Context) (*verdict, error) {
	if err := l.lockAll(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.undecided; err != nil || !l.isOpen() {
		l.unlockAll()
		return nil, cmp.Or(err, l.Released())
	}
	l.become(ending)
	l.release = &verdict{done: make(chan struct{})}
	return l.release, nil
}

// verdictOn is the verdict on an answer. unsure is set if an earlier attempt may have been
// executed.
type verdictOn func(ctx context.Context, to *handoff, got engine.Answer, unsure error) error

// sendLast sends a command that releases the lock and does something else with it, and returns
// its verdict and the lock's. Right before that the validity ends. One that was never sent
// leaves the lease as it is. A plain release follows if the command may not have released the
// lock. That is safe even if an attempt is still on its way: both need the lease's entry, and
// both remove it.
func (l *Lease) sendLast(ctx context.Context, command string, to *handoff, send func(context.Context) (engine.Answer, error), judge verdictOn) (err, released error) {
	if l.declaredLoss() != nil {
		released = l.sendRelease(attempt.Detached(ctx), to, nil)
		return released, released
	}
	got, unsure, err := settle(ctx, l, send)
	switch {
	case err == nil:
		err = judge(ctx, to, got, unsure)
		return err, err
	case engine.Revoke(ctx), // and the caller may go on
		unsure == nil && ctx.Err() == nil && engine.AsFailure(err).Outage(): // and neither can the release be sent
		err = l.Judge(l.failed(command, err))
		return err, err
	}
	released = l.sendRelease(attempt.Detached(ctx), to, nil)
	if unsure != nil { // what the release finds proves nothing more
		err = l.unknown(command, unsure)
		return err, err
	}
	return Besides(l.failed(command, err), released), released
}

// writeAndRelease writes, and releases by a command of its own.
func (l *Lease) writeAndRelease(ctx context.Context, to *handoff, u *engine.Update) (err, released error) {
	err = l.write(ctx, u)
	if repeatable(err) && engine.Revoke(ctx) { // and the caller may go on
		return l.Judge(err), l.Judge(err)
	}
	released = l.sendRelease(attempt.Detached(ctx), to, nil)
	if err == nil && isVerdict(released) { // nobody was let in before the last write
		released = nil
	}
	return Besides(err, released), released
}

// Besides is the error of a command that was followed by a release of its own. If the
// command was not executed, the release has the verdict.
func Besides(err, released error) error {
	if repeatable(err) && (errors.Is(released, doclock.ErrLost) || errors.Is(released, doclock.ErrOutcomeUnknown)) {
		return oneline.Join(err, released)
	}
	return err
}

// handoff is who gets the lock when a lease ends: a waiter of this process, or
// whoever asks first.
type handoff struct {
	lease  *Lease
	next   *engine.Successor // or nil
	answer engine.Answer     // to next; without an image, nobody knows,
	made   bool              // if a command may have made the entry
}

// handoff claims the successor, if there is one. The caller must close it. A lock that
// may leave a remainder is handed over to nobody: the remainder would keep the waiter out.
func (l *Lease) handoff() *handoff {
	o := &handoff{lease: l}
	if g := l.last(); g.Until.IsZero() {
		o.next = l.succession.Next(g)
	}
	return o
}

// close reports to the Locker that a command with this verdict has released the lock,
// or may have. A successor without an answer asks by the same id, and so finds its
// entry.
func (o *handoff) close(verdict error) {
	e := Ending{How: Released}
	if o.next != nil {
		e.How, e.Answer, e.Made = HandedOver, o.answer, o.made
	}
	if !repeatable(verdict) {
		e.Unanswered = o.lease.unanswered
	}
	o.lease.ended(e)
}

// release releases the lease and hands it over, and reports whether it did.
// The successor's time runs from the first attempt, which may be the one that
// was executed.
func (o *handoff) release(ctx context.Context, first engine.Reading) (done bool, err error) {
	if o.next == nil {
		return false, nil
	}
	got, err := o.lease.commands.Handoff(ctx, o.lease.last(), *o.next)
	return o.judge(ctx, got, err, first)
}

// writeAndRelease does the same with an update. A successor that inherits the
// lease's time inherits no short one.
func (o *handoff) writeAndRelease(ctx context.Context, first engine.Reading, u *engine.Update) (done bool, err error) {
	if o.next == nil {
		return false, nil
	}
	l := o.lease
	can, inherits := l.engine.Piggybacks(l.grant, u, *o.next)
	if inherits {
		first = l.since()
		can = can && l.left() > l.grant.TTL*9/10
	}
	if !can {
		return false, nil
	}
	got, err := l.commands.WriteAndHandOff(ctx, l.grant, u, *o.next)
	return o.judge(ctx, got, err, first)
}

// judge keeps the successor's answer, and reports whether the lease was released. An
// attempt that finds nothing, or is refused, says nothing about the successor,
// and the lock can still be released to nobody. An attempt that leaves
// something unreadable was executed: the successor asks what it means. An
// attempt of which nothing happened, for a reason that passes, is repeated.
func (o *handoff) judge(ctx context.Context, got engine.Answer, err error, first engine.Reading) (done bool, _ error) {
	o.made = o.made || got.Image != nil || err != nil && !engine.AsFailure(err).Nothing
	switch {
	case got.Image == nil && engine.AsFailure(err).Refused():
		return false, nil
	case got.Image == nil:
		return false, err
	case err == nil:
		o.answer, o.answer.Sent = got, first
		if got.Outcome == engine.Granted {
			o.lease.emitEnds(ctx, doclock.HowHandedOver, nil)
		}
	}
	return true, nil
}

// taken decides whether our lost attempt or another user of the token removed the
// entry, after a release or a delete that found nothing.
func (l *Lease) taken(ctx context.Context, command string, unsure error) error {
	img, err := l.read(ctx)
	g := l.last()
	switch _, there := keyed(img, g.Tag, g.Key); {
	case err != nil:
		return l.unknown(command, oneline.Join(unsure, err))
	case there:
		return l.lose(engine.Answer{Image: img})
	case command == "release" && l.noneTook(img):
		return nil
	default:
		return l.unknown(command, unsure)
	}
}

// noneTook says that no other user has taken the entry. While the lease is valid,
// a user who took it has it still, or has left a remainder with a later fencing
// token. That user leaves none if this lease had detached, and none in a
// document that was deleted.
func (l *Lease) noneTook(img *engine.Image) bool {
	l.mu.Lock()
	detached := l.key != uuid.Nil
	l.mu.Unlock()
	if detached || l.suspect(img) != nil || l.left() <= 0 {
		return false
	}
	return !slices.ContainsFunc(img.Lock.Entries, func(e engine.Entry) bool {
		return e.Tag == l.grant.Tag && e.Fence > l.grant.Fence && !e.Until.IsZero()
	})
}

// Detach implements doclock.Lease. A caller who gives up has the token: the
// detach goes on, and a resume shows whether it was executed.
func (l *Lease) Detach(ctx context.Context) (token string, err error) {
	defer func() { err = engine.Raise(err) }()
	if err := l.ready(ctx); err != nil {
		return "", err
	}
	if l.limit.ttl > 0 { // it never changes
		return "", fmt.Errorf("%w: Detach: %v: the lease has a HoldAtMost, and the entry of a token outlives its leases; "+
			"acquire without it what is to be detached", doclock.ErrInvalidArgument, l.name())
	}
	v, err := l.claimAll(ctx)
	if err != nil {
		return "", err
	}
	k := engine.Token{Tag: l.grant.Tag, Secret: l.grant.Secret} // of a lease that was resumed
	if k.Secret == uuid.Nil {
		k.Secret = uuid.New()
	}
	sent := func() {
		l.mark(k.Key())
		l.giveUp()
	}
	err = l.run(ctx, l.sending(sent), func(ctx context.Context) error {
		defer l.unlockAll()
		err := l.detach(ctx, k)
		l.concludeDetach(ctx, v, err)
		return err
	})
	err = l.tell(ctx, v, err, l.concludeDetach)
	if err != nil && !errors.Is(err, doclock.ErrLost) {
		l.mu.Lock()
		l.reopen(v) // a release waits for the detach's end
		l.mu.Unlock()
	}
	if err != nil && (!errors.Is(err, doclock.ErrOutcomeUnknown) || repeatable(err)) {
		return "", err
	}
	return k.Text(), err
}

// detach sends the detach and judges its answer. A repeat that finds nothing reads
// the document: an earlier attempt may have left the entry to a user of the token,
// who has resumed it since, or has even released it. Nobody else knows a new key. Others
// know the key of a lease that was itself resumed. One of them may have taken the entry
// before that attempt, but such a resume writes `until`.
func (l *Lease) detach(ctx context.Context, k engine.Token) error {
	if err := l.declaredLoss(); err != nil {
		return err
	}
	got, unsure, err := settle(ctx, l, func(ctx context.Context) (engine.Answer, error) { return l.commands.Detach(ctx, l.grant, k.Key()) })
	switch {
	case err != nil:
		return l.Judge(l.noAnswer("detach", unsure, err))
	case got.Outcome == engine.Detached:
		return nil
	case unsure == nil:
		return l.lose(got)
	}
	img, err := l.read(ctx)
	switch entry, there := keyed(img, k.Tag, k.Key()); {
	case err != nil:
		return l.unknown("detach", oneline.Join(unsure, err))
	case there && (l.grant.Key == uuid.Nil || entry.Until.IsZero()):
		return nil
	default:
		return l.unknown("detach", unsure)
	}
}

// keyed is the entry of a token in the image.
func keyed(img *engine.Image, tag string, key uuid.UUID) (engine.Entry, bool) {
	if img == nil {
		return engine.Entry{}, false
	}
	return img.Lock.Keyed(tag, key)
}

// mark notes the key that the entry has, or may have, after a detach.
func (l *Lease) mark(key uuid.UUID) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.key = key
}

// concludeDetach publishes the verdict on a detach, which is the release's too. If
// the detach was refused or not sent, the entry stands as before. If its outcome
// is unknown, a release may end the entry, whether or not it has the key.
func (l *Lease) concludeDetach(ctx context.Context, v *verdict, err error) {
	e := Ending{How: Detached}
	if errors.Is(err, doclock.ErrLost) {
		e.How = Released
	}
	if err == nil || e.How == Released {
		e.Unanswered = l.unanswered // whose clean-up spares entries with a key
	}
	defer l.ended(e)
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case !l.publish(ctx, v, doclock.HowDetached, err):
	case repeatable(err):
		l.key = uuid.Nil
		l.become(held)
		l.reopen(v)
	default:
		l.become(detached)
		if errors.Is(err, doclock.ErrOutcomeUnknown) {
			l.reopen(v)
		}
	}
}
