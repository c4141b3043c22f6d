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
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
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

// passedOn is what want takes for a lease that was released, whether or not its
// waiter was just asking the server: then it is not handed over.
const passedOn = "released or handed over"

// want waits for events, each as "kind commands", or "kind" with any number of
// commands, or passedOn, and returns them. No others may have come since the last
// call.
func (h *heard) want(want ...string) []doclock.Event {
	h.Helper()
	h.eventually(fmt.Sprintf("%q come", want), func() bool { return len(h.events()) >= len(want) })
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []string
	for i, e := range h.all {
		text := fmt.Sprint(e.Kind, " ", e.Commands)
		if i < len(want) && (string(e.Kind) == want[i] || want[i] == passedOn && (e.Kind == doclock.EventReleased || e.Kind == doclock.EventHandedOver)) {
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

// A waiter tells once that it waits, and behind whom. Its grant names the holder that
// was in its way. A lock that is handed over
// ends the holder's lease as such.
func TestEventsOfAWait(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]relations.Rules{"refused": relations.Exclusive(), "queued": relations.Fair()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			h, option := p.heard()
			l := p.locker(p.coll, rules, option)
			for handed, round := false, 0; !handed; round++ {
				if round == 50 {
					t.Fatal("no lock was handed over")
				}
				holder := p.acquire(l, "write")
				waiter := acquire(t, p.bounded(), l, "write")
				all := h.want("granted", "waiting")
				if waits := all[1]; len(waits.Holders) != 1 || waits.Holders[0].ID != holder.ID() || waits.Err != nil || waits.LeaseID != uuid.Nil || waits.Waited < 0 {
					t.Errorf("waiting %+v", waits)
				}
				begun := time.Now()
				p.queued(l, 1)
				waited := time.Since(begun)
				p.release(holder)
				lease := p.granted(waiter)
				all = h.want(passedOn, "granted")
				if e := all[1]; e.Waited < waited || e.LeaseID != lease.ID() || all[0].LeaseID != holder.ID() || all[0].Commands == 0 {
					t.Errorf("passed on %+v, granted %+v", all[0], e)
				} else if len(e.Holders) != 1 || e.Holders[0].ID != holder.ID() {
					t.Errorf("granted behind %v", e.Holders)
				}
				handed = all[0].Kind == doclock.EventHandedOver
				p.release(lease)
				h.want("released 1")
			}
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
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, flowers, "write")
	p.want(err, context.DeadlineExceeded)
	gaveUp(context.DeadlineExceeded)
	_, err = l.Acquire(p.bounded(), flowers, "write", doclock.MaxWait(500*time.Millisecond))
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
