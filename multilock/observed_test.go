package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// heard are the events that a Locker's observer was told.
type heard struct {
	*place
	mu  sync.Mutex
	all []doclock.Event
}

// heard makes an observer; its option is for a Locker.
func (p *place) heard() (*heard, doclock.Option) {
	h := &heard{place: p}
	return h, doclock.OnEvent(func(_ context.Context, e doclock.Event) {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.all = append(h.all, e)
	})
}

func (h *heard) events() []doclock.Event {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.all)
}

// want waits for events, each as "kind commands", or "kind" with any number of
// commands, and returns them. No others may have come since the last call.
func (h *heard) want(want ...string) []doclock.Event {
	h.Helper()
	h.eventually(fmt.Sprintf("%q come", want), func() bool { return len(h.events()) >= len(want) })
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []string
	for i, e := range h.all {
		text := fmt.Sprint(e.Kind, " ", e.Commands)
		if i < len(want) && string(e.Kind) == want[i] {
			text = want[i]
		}
		got = append(got, text)
	}
	if !slices.Equal(got, want) {
		h.Fatalf("told %q, want %q", got, want)
	}
	all := h.all
	h.all = nil
	return all
}

// ledger counts the leases of a Locker that have no end in the events.
type ledger struct {
	*place
	mu    sync.Mutex
	open  map[uuid.UUID]int
	ended int
}

// ledger makes one. At the end of the test all leases must have had theirs.
func (p *place) ledger() *ledger {
	l := &ledger{place: p, open: map[uuid.UUID]int{}}
	p.Cleanup(func() { p.eventually("each lease has an end", l.balanced) })
	return l
}

func (l *ledger) option() doclock.Option {
	return doclock.OnEvent(func(_ context.Context, e doclock.Event) {
		l.mu.Lock()
		defer l.mu.Unlock()
		switch e.Kind {
		case doclock.EventGranted:
			l.open[e.LeaseID]++
		case doclock.EventLost, doclock.EventReleased, doclock.EventHandedOver, doclock.EventDetached:
			l.ended++
			if l.open[e.LeaseID]--; l.open[e.LeaseID] < 0 {
				l.Errorf("an end without a grant: %+v", e)
			}
		}
	})
}

func (l *ledger) balanced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, open := range l.open {
		if open != 0 {
			return false
		}
	}
	return l.ended > 0
}

// The life of a lease, with what each event says.
func TestEventsOfALease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Exclusive(), option, doclock.Owner("ann"))
	begun := time.Now()
	lease := p.try(l, "write")
	if err := lease.Renew(p.bounded()); err != nil {
		t.Fatal(err)
	}
	p.release(lease)
	for i, e := range h.want("granted 1", "renewed 1", "released 2") {
		if e.Collection != p.coll.Database().Name()+".documents" || !e.DocumentID.Equal(lease.DocumentID()) || e.Tag != "write" || e.Owner != "ann" ||
			e.LeaseID != lease.ID() || e.Fence != lease.Fence() || e.Time.Before(begun.Add(-time.Millisecond)) || e.Time.After(time.Now()) {
			t.Errorf("event %d: %+v", i, e)
		}
		if (e.Waited > 0) != (i == 0) || e.Waited > time.Since(begun) || (e.Held > 0) != (i > 0) || e.Held > time.Since(begun) || e.Err != nil || e.Holders != nil {
			t.Errorf("event %d: waited %v, held %v, error %v, holders %v", i, e.Waited, e.Held, e.Err, e.Holders)
		}
	}

	lease = p.try(l, "write", doclock.OwnedBy("bob"))
	_, err := l.TryAcquire(p.bounded(), flowers, "write")
	p.want(err, doclock.ErrConflict)
	_, err = l.TryAcquire(p.bounded(), bson.M{"_id": 2}, "write")
	p.want(err, doclock.ErrNotFound)
	p.erase("write")
	p.want(lease.Release(p.bounded()), doclock.ErrLost)
	all := h.want("granted 1", "refused 1", "refused 1", "lost 1")
	if refused := all[1]; all[0].Owner != "bob" || len(refused.Holders) != 1 || refused.Holders[0].Owner != "bob" || !errors.Is(refused.Err, doclock.ErrConflict) ||
		refused.LeaseID != uuid.Nil || !refused.DocumentID.Equal(lease.DocumentID()) {
		t.Errorf("granted %+v, refused %+v", all[0], refused)
	}
	if p.want(all[2].Err, doclock.ErrNotFound, doclock.ErrNotAcquired); !errors.Is(all[3].Err, doclock.ErrLost) {
		t.Errorf("lost with %v", all[3].Err)
	}

	// What is refused before it begins sends no event.
	_, err = l.TryAcquire(p.bounded(), flowers, "no tag")
	p.want(err, doclock.ErrInvalidArgument)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = l.Acquire(over, flowers, "write")
	p.want(err, context.Canceled)
	p.rest(l)
	_, err = l.Acquire(p.bounded(), flowers, "write")
	p.want(err, doclock.ErrClosed)
	if more := h.events(); len(more) > 0 {
		t.Errorf("told %v", more)
	}
}

// A waiter tells once that it waits, and behind whom. A lock that is handed over
// ends the holder's lease as such.
func TestEventsOfAWait(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]relations.Rules{"refused": relations.Exclusive(), "queued": relations.Fair()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			h, option := p.heard()
			l := p.locker(p.coll, rules, option)
			holder := p.acquire(l, "write")
			waiter := acquire(t, p.bounded(), l, "write")
			all := h.want("granted 1", "waiting")
			if waits := all[1]; len(waits.Holders) != 1 || waits.Holders[0].ID != holder.ID() || waits.Err != nil || waits.LeaseID != uuid.Nil || waits.Waited < 0 {
				t.Errorf("waiting %+v", waits)
			}
			time.Sleep(20 * time.Millisecond)
			p.release(holder)
			lease := p.granted(waiter)
			all = h.want("handed over 1", "granted")
			if e := all[1]; e.Waited < 20*time.Millisecond || e.LeaseID != lease.ID() || all[0].LeaseID != holder.ID() {
				t.Errorf("handed over %+v, granted %+v", all[0], e)
			}
			p.release(lease)
			h.want("released 1")
		})
	}
}

// A waiter behind another one of its process waits before it asks.
func TestEventsOfAWaiterThatDoesNotAsk(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Exclusive(), option)
	holder := p.acquire(l, "write")
	first := acquire(t, p.bounded(), l, "write")
	h.want("granted 1", "waiting")
	second := acquire(t, p.bounded(), l, "write")
	if e := h.want("waiting 0")[0]; len(e.Holders) != 1 || e.Holders[0].ID != holder.ID() {
		t.Errorf("behind %v", e.Holders)
	}
	p.release(holder)
	p.release(p.granted(first))
	p.release(p.granted(second))
}

// An acquire that gives up says why, and who was in the way.
func TestEventsOfAcquiresThatGiveUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	holder := p.try(p.locker(p.coll, relations.Fair()), "write")
	l := p.locker(p.coll, relations.Fair(), option)
	gaveUp := func(is error) {
		t.Helper()
		all := h.want("waiting", "gave up")
		if e := all[1]; !errors.Is(e.Err, doclock.ErrNotAcquired) || is != nil && !errors.Is(e.Err, is) || len(e.Holders) == 0 || e.Holders[0].ID != holder.ID() {
			t.Errorf("gave up with %v, behind %v", e.Err, e.Holders)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, flowers, "write")
	p.want(err, context.DeadlineExceeded)
	gaveUp(context.DeadlineExceeded)
	_, err = l.Acquire(p.bounded(), flowers, "write", doclock.MaxWait(200*time.Millisecond))
	p.want(err, doclock.ErrConflict)
	gaveUp(nil)
	_, err = l.Acquire(p.bounded(), flowers, "write", doclock.MaxWait(0))
	p.want(err, doclock.ErrConflict)
	h.want("refused 1")
	waiter := acquire(t, p.bounded(), l, "write")
	p.waiting("write")
	p.rest(l)
	_, err = waiter.wait()
	p.want(err, doclock.ErrClosed)
	gaveUp(doclock.ErrClosed)
}

// A ticket's acquire ends when the ticket does, and not before.
func TestEventsOfTickets(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Fair(), option)
	ticket := p.enqueue(l, "write")
	holder, err := ticket.Confirm(p.bounded())
	if err != nil {
		t.Fatal(err)
	}
	h.want("granted 1")
	second, cancelled, lost := p.enqueue(l, "write"), p.enqueue(l, "write"), p.enqueue(l, "write")
	h.want("waiting 1", "waiting 1", "waiting 1")
	_, err = second.Confirm(p.bounded())
	p.want(err, doclock.ErrConflict)
	if err := cancelled.Cancel(p.bounded()); err != nil {
		t.Fatal(err)
	}
	if e := h.want("gave up 1")[0]; !errors.Is(e.Err, doclock.ErrReleased) {
		t.Errorf("the cancelled one: %v", e.Err)
	}
	id := lost.ID()
	p.change(bson.M{"$pull": bson.M{"lock.tags.write": bson.M{"id": bson.Binary{Subtype: 4, Data: id[:]}}}})
	for range 2 {
		_, err = lost.Confirm(p.bounded())
		p.want(err, doclock.ErrLost)
	}
	if e := h.want("gave up 2")[0]; !errors.Is(e.Err, doclock.ErrLost) {
		t.Errorf("the lost one: %v", e.Err)
	}
	p.release(holder)
	if _, err = second.Wait(p.bounded()); err != nil {
		t.Fatal(err)
	}
	if all := h.want("released 1", "granted"); all[1].Commands < 2 || all[1].LeaseID != second.ID() {
		t.Errorf("granted after %d commands", all[1].Commands)
	}
}

// A token's users: a detach, a resume that takes the entry, a touch that is no event.
func TestEventsOfTokens(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Exclusive(), option)
	lease := p.try(l, "write")
	token := p.detach(lease)
	if err := l.Touch(p.bounded(), token); err != nil {
		t.Fatal(err)
	}
	first := p.resume(l, token, doclock.OwnedBy("bob"))
	second := p.resume(l, token)
	p.want(first.Release(p.bounded()), doclock.ErrLost)
	p.release(second)
	all := h.want("granted 1", "detached 1", "granted 1", "granted 1", "lost", "released 1")
	if all[1].LeaseID != lease.ID() || all[2].LeaseID != first.ID() || all[2].Owner != "bob" || all[4].LeaseID != first.ID() || all[5].LeaseID != second.ID() {
		t.Errorf("told %+v", all)
	}
	_, err := l.Resume(p.bounded(), token)
	p.want(err, doclock.ErrLost)
	if e := h.want("gave up 1")[0]; !e.DocumentID.Equal(lease.DocumentID()) || !errors.Is(e.Err, doclock.ErrNotAcquired) {
		t.Errorf("the last: %+v", e)
	}
}

// A downgrade ends one lease and begins another.
func TestEventsOfADowngrade(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.WritePreferring(), option)
	writer := p.try(l, "write", doclock.OwnedBy("ann"))
	reader, err := writer.Downgrade(p.bounded(), "read")
	if err != nil {
		t.Fatal(err)
	}
	p.release(reader)
	all := h.want("granted 1", "released 1", "granted 0", "released 1")
	if e := all[2]; all[1].LeaseID != writer.ID() || e.LeaseID != reader.ID() || e.Tag != "read" || e.Owner != "ann" || e.Waited <= 0 {
		t.Errorf("told %+v", all)
	}
}

// Several leases have events of their own, also those that are given back because
// a later one can't be had.
func TestEventsOfSeveral(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	h, option := p.heard()
	other := p.locker(p.coll, relations.Exclusive())
	l := p.locker(p.coll, relations.Exclusive(), option)
	held, err := other.TryAcquire(p.bounded(), doclock.ID(3), "write")
	if err != nil {
		t.Fatal(err)
	}
	wants := []multilock.Want{l.Want(doclock.ID(1), "write"), l.Want(doclock.ID(3), "write", doclock.MaxWait(300*time.Millisecond)), l.Want(doclock.ID(2), "write")}
	_, err = multilock.AcquireAll(p.bounded(), wants...)
	p.want(err, doclock.ErrConflict)
	all := h.want("granted 1", "granted 1", "waiting", "gave up", "released 1", "released 1")
	if e := all[3]; e.Holders[0].ID != held.ID() || e.Waited < 300*time.Millisecond || all[1].Waited >= e.Waited {
		t.Errorf("gave up: %+v", e)
	}
	p.release(held)
	if err := multilock.DoAll(p.bounded(), func(context.Context, multilock.Leases) error { return nil }, wants...); err != nil {
		t.Fatal(err)
	}
	h.want("granted 1", "granted 1", "granted 1", "released 1", "released 1", "released 1")
}

// A claim counts its look-ups, and waits when nothing is free.
func TestEventsOfClaims(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 2)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Exclusive(), option)
	first, second := p.claim(l), p.claim(l)
	h.want("granted 1", "granted")
	_, err := l.TryAcquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
	p.want(err, doclock.ErrNotFound)
	h.want("refused")
	waiter := begin(t, func() (*doclock.Lease, error) {
		return l.Acquire(p.bounded(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
	})
	h.want("waiting")
	p.release(first)
	third := p.granted(waiter)
	all := h.want("released 1", "granted")
	if e := all[1]; e.LeaseID != third.ID() || !e.DocumentID.Equal(third.DocumentID()) || e.Commands < 2 {
		t.Errorf("granted %+v", e)
	}
	p.release(second)
	p.release(third)
	h.want("released 1", "released 1")
}

// Holders of one entry have events of their own with its id, and a join costs
// nothing.
func TestEventsOfASharedEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.sharing(p.coll, option)
	first, second := p.try(l, "read"), p.try(l, "read")
	p.release(first)
	p.release(second)
	for _, e := range h.want("granted 1", "granted 0", "released 0", "released 1") {
		if e.LeaseID != first.ID() {
			t.Errorf("%s of %v", e.Kind, e.LeaseID)
		}
	}
	first, second = p.try(l, "read"), p.try(l, "read")
	p.erase("read")
	p.want(first.Renew(p.bounded()), doclock.ErrLost)
	h.want("granted 1", "granted 0", "lost 1", "lost 1")
	_, _ = first.Release(p.bounded()), second.Release(p.bounded())
}

// Each command is counted where it is sent: repeats too, and those that make the
// document.
func TestEventsCountCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	net, w := faultnet.New(), &watch{}
	coll := p.via(options.Client().SetDialer(net).SetMonitor(w.monitor("")).SetRetryWrites(false))
	h, option := p.heard()
	l := p.locker(coll, relations.Exclusive(), option, doclock.Upsert())
	counted := func(n int, name string, want ...string) {
		t.Helper()
		all := h.want(want...)
		if got := all[len(all)-1].Commands; got != n || w.count() != n {
			t.Errorf("%s: told %d, sent %v, want %d", name, got, w.commands(), n)
		}
		w.commands()
	}
	lease, err := l.TryAcquire(p.bounded(), bson.M{"_id": "new"}, "write")
	if err != nil {
		t.Fatal(err)
	}
	counted(3, "an upsert", "granted")
	net.Arm(faultnet.LoseReply, "findAndModify")
	if err := lease.Renew(p.bounded()); err != nil {
		t.Fatal(err)
	}
	h.want("renewal failed 1", "renewed 2")
	net.Arm(faultnet.LoseReply, "findAndModify")
	if err := lease.Release(p.bounded()); err != nil {
		t.Fatal(err)
	}
	counted(4, "a renewal and a release, each repeated", "released")
	net.Arm(faultnet.LoseReply, "findAndModify")
	lease = p.try(l, "write")
	counted(2, "an acquire that is repeated", "granted")
	p.release(lease)
	h.want("released 1")
}

// A lost entry is told, though its holder asks nobody, and so is one that an
// operator broke.
func TestEventsOfLosses(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	l := p.locker(p.coll, relations.Exclusive(), option, short(200*time.Millisecond))
	lease := p.try(l, "write")
	all := h.want("granted 1", "lost 0")
	if e := all[1]; e.Held < 150*time.Millisecond || !errors.Is(e.Err, doclock.ErrLost) || e.LeaseID != lease.ID() {
		t.Errorf("lost: %+v", e)
	}
	if err := lease.Release(p.bounded()); err != nil { // nobody was let in
		t.Fatal(err)
	}
	long := p.locker(p.coll, relations.Exclusive(), option)
	lease = p.try(long, "write")
	inspected, err := admin.Inspect(p.bounded(), p.coll, flowers)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := admin.Break(p.bounded(), p.coll, inspected.Entries[0]); err != nil {
		t.Fatal(err)
	}
	p.want(lease.Release(p.bounded()), doclock.ErrLost)
	h.want("granted 1", "lost 1") // and nothing of the first one's release
}

// What the network does is told: renewals that fail, outcomes that are unknown,
// clean-ups that are refused.
func TestEventsOfFailures(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	h, option := p.heard()
	l := p.locker(coll, relations.Exclusive(), option)
	lease := p.try(l, "write")
	slow := net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel := context.WithCancel(t.Context())
	call := begin(t, func() (any, error) { return nil, lease.Update(ctx, bson.M{"$set": bson.M{"total": 2}}) })
	wait(t, slow.Fired())
	cancel()
	_, err := call.wait()
	p.want(err, doclock.ErrOutcomeUnknown)
	all := h.want("granted 1", "outcome unknown 1")
	if e := all[1]; !errors.Is(e.Err, context.Canceled) || !errors.Is(e.Err, doclock.ErrOutcomeUnknown) || e.LeaseID != lease.ID() {
		t.Errorf("unknown: %+v", e)
	}
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	slow = net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel = context.WithCancel(t.Context())
	call = begin(t, func() (any, error) { return nil, lease.Release(ctx) })
	wait(t, slow.Fired())
	cancel()
	_, err = call.wait()
	p.want(err, doclock.ErrOutcomeUnknown)
	h.want("outcome unknown 2")
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	if e := h.want("released 2")[0]; e.Err != nil {
		t.Errorf("released with %v", e.Err)
	}

	// A lease that is granted to nobody has no events, but for its clean-up.
	slow = net.Arm(faultnet.DelayReply, "findAndModify")
	ctx, cancel = context.WithCancel(t.Context())
	gone := acquire(t, ctx, l, "write")
	wait(t, slow.Fired())
	cancel()
	_, err = gone.wait()
	p.want(err, context.Canceled)
	h.want("gave up 1")
	net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
		return bson.M{"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not allowed"}
	})
	if err := slow.Let(); err != nil {
		t.Fatal(err)
	}
	e := h.want("clean-up failed 0")[0]
	if entry := p.entries("write")[0]; !slices.Equal(entry.ID.Data, e.LeaseID[:]) || driverError(e.Err) == nil || e.Tag != "write" || e.DocumentID.Type == 0 {
		t.Errorf("the clean-up of %+v: %+v", entry, e)
	}
}

// The removal of a waiting entry fails: its acquire has given up before.
func TestEventsOfARefusedCleanUp(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	h, option := p.heard()
	holder := p.try(p.locker(p.coll, relations.Fair()), "write")
	l := p.locker(coll, relations.Fair(), option)
	ticket := p.enqueue(l, "write")
	net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
		return bson.M{"ok": 0, "code": 13, "codeName": "Unauthorized", "errmsg": "not allowed"}
	})
	if err := ticket.Cancel(p.bounded()); err == nil {
		t.Error("Cancel has removed it")
	}
	e := h.want("waiting 1", "gave up 1", "clean-up failed 0")[2]
	if e.LeaseID != ticket.ID() || !e.DocumentID.Equal(holder.DocumentID()) || e.Tag != "write" || driverError(e.Err) == nil {
		t.Errorf("the clean-up: %+v", e)
	}
}

// An observer that is stuck delays nobody, and Close neither. What it was too slow
// for is delivered when it goes on.
func TestAStuckObserverDelaysNobody(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	h, option := p.heard()
	stuck := make(chan struct{})
	l := p.locker(p.coll, relations.Exclusive(), doclock.OnEvent(func(context.Context, doclock.Event) { <-stuck }), option)
	lease := p.try(l, "write")
	waiter := acquire(t, p.bounded(), l, "write")
	p.eventually("it waits", func() bool { return l.Waiters(1) == 1 })
	p.release(lease)
	p.release(p.granted(waiter))
	p.rest(l)
	if all := h.events(); len(all) > 0 {
		t.Errorf("told %v", all)
	}
	close(stuck)
	h.want("granted 1", "waiting", "handed over 1", "granted", "released 1")
}

// Without an observer an acquire allocates nothing for one, and reads no clock.
func TestNoObserver(t *testing.T) {
	p := newPlace(t)
	readings := 0
	l := p.locker(p.coll, relations.Exclusive(), func(c *engine.Config) error {
		c.Clock = func() engine.Reading { readings++; return engine.Reading{} }
		return nil
	})
	ctx := t.Context()
	n := testing.AllocsPerRun(100, func() {
		if !l.TellNobody(ctx) {
			t.Error("commands are counted")
		}
	})
	if n > 0 || readings > 0 {
		t.Errorf("%v allocations, %d readings of the clock", n, readings)
	}
}
