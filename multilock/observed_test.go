package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// heard are the events that a Locker's observer got.
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

// of are the events of a kind.
func (h *heard) of(kind doclock.EventKind) []doclock.Event {
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(h.all), func(e doclock.Event) bool { return e.Kind != kind })
}

// want are the events since the last call, which must be these, each as "kind
// commands", or "kind" with any number of commands.
func (h *heard) want(want ...string) []doclock.Event {
	h.Helper()
	synctest.Wait()
	h.mu.Lock()
	defer h.mu.Unlock()
	var got []string
	for i, e := range h.all {
		got = append(got, fmt.Sprint(e.Kind, " ", e.Commands))
		if i < len(want) && string(e.Kind) == want[i] {
			got[i] = want[i]
		}
	}
	if !slices.Equal(got, want) {
		h.Fatalf("got %q, want %q", got, want)
	}
	all := h.all
	h.all = nil
	return all
}

// The life of a lease, with what each event says.
func TestEventsOfALease(t *testing.T) {
	virtual(t, func(p *place) {
		h, option := p.heard()
		l := p.locker(p.coll, relations.Exclusive(), option, doclock.Owner("ann"))
		p.mem.Delay(1, time.Second)
		lease := p.try(l, "write")
		granted := time.Now()
		time.Sleep(time.Second)
		must(p, lease.Renew(p.Context()))
		p.release(lease)
		for i, e := range h.want("granted 1", "renewed 1", "released 2") {
			want := doclock.Event{
				Kind: e.Kind, Commands: e.Commands, Collection: p.coll.Database().Name() + "." + p.coll.Name(), DocumentID: lease.DocumentID(),
				Tag: "write", Owner: "ann", LeaseID: lease.ID(), Fence: lease.Fence(), Time: granted.Add(time.Second), Held: time.Second,
			}
			if i == 0 {
				want.Time, want.Held, want.Waited = granted, 0, time.Second
			}
			if got, want := fmt.Sprintf("%+v", e), fmt.Sprintf("%+v", want); got != want {
				p.Errorf("got %s\nwant %s", got, want)
			}
		}

		lease = p.try(l, "write", doclock.Owner("bob"))
		p.want(errOf(l.TryAcquire(p.Context(), flowers, "write")), doclock.ErrConflict)
		p.want(errOf(l.TryAcquire(p.Context(), doclock.ID(7), "write")), doclock.ErrNotFound)
		p.erase("write")
		p.want(lease.Release(p.Context()), doclock.ErrLost)
		all := h.want("granted 1", "refused 1", "refused 1", "lost 1")
		if refused := all[1]; all[0].Owner != "bob" || len(refused.Holders) != 1 || refused.Holders[0].Owner != "bob" ||
			refused.LeaseID != uuid.Nil || !refused.DocumentID.Equal(lease.DocumentID()) {
			p.Errorf("granted %+v, refused %+v", all[0], refused)
		}
		p.want(all[1].Err, doclock.ErrConflict)
		p.want(all[2].Err, doclock.ErrNotFound, doclock.ErrNotAcquired)
		p.want(all[3].Err, doclock.ErrLost)

		// A call that is refused before it begins sends no event.
		p.want(errOf(l.TryAcquire(p.Context(), flowers, "no tag")), doclock.ErrInvalidArgument)
		over, cancel := context.WithCancel(p.Context())
		cancel()
		p.want(errOf(l.Acquire(over, flowers, "write")), context.Canceled)
		p.rest(l)
		p.want(errOf(l.Acquire(p.Context(), flowers, "write")), doclock.ErrClosed)
		h.want()
	})
}

// Without an observer an acquire allocates nothing for one, and reads no clock.
func TestNoObserver(t *testing.T) {
	p := newPlace(t)
	readings := 0
	l := p.locker(p.coll, relations.Exclusive(), engine.Option(func(c *engine.Config) error {
		c.Clock = func() engine.Reading { readings++; return engine.Reading{} }
		return nil
	}))
	ctx := t.Context()
	n := testing.AllocsPerRun(100, func() {
		if !l.ObserveNobody(ctx) {
			t.Error("commands are counted")
		}
	})
	if n > 0 || readings > 0 {
		t.Errorf("%v allocations, %d readings of the clock", n, readings)
	}
}

// Each command is counted where it is sent: repeats too, and those that make the
// document.
func TestEventsCountCommands(t *testing.T) {
	virtual(t, func(p *place) {
		coll, w := p.watched()
		h, option := p.heard()
		l := p.locker(coll, relations.Exclusive(), option, doclock.Upsert())
		counted := func(n int, want ...string) {
			p.Helper()
			all := h.want(want...)
			if got := all[len(all)-1].Commands; got != n || w.Count() != n {
				p.Errorf("%q: %d events, sent %v, want %d", want, got, w.Take(), n)
			}
			w.Take()
		}
		lease := p.got(l.TryAcquire(p.Context(), bson.M{"_id": "new"}, "write"))
		counted(3, "granted")
		p.mem.LoseReplies(1, locktest.Renewals)
		must(p, lease.Renew(p.Context()))
		h.want("renewal failed 1", "renewed 2")
		p.mem.LoseReplies(1, locktest.Releases)
		p.release(lease)
		counted(5, "released") // with the read that shows no break
		p.mem.LoseReplies(1, locktest.Acquires)
		p.try(l, "write")
		counted(2, "granted")
	})
}

// A ticket's cancel whose caller gives up is of unknown outcome. Another caller who
// gives up waiting for the same removal gets that error too, but no second event.
func TestEventsOfACancelOfUnknownOutcome(t *testing.T) {
	virtual(t, func(p *place) {
		h, option := p.heard()
		p.try(p.locker(p.coll, relations.Fair()), "write")
		l := p.locker(p.coll, relations.Fair(), option)
		ticket := p.enqueue(l, "write")
		p.mem.Delay(1, time.Minute, locktest.CleanUps, locktest.Releases)
		ctx := p.within(time.Second)
		p.want(ticket.Cancel(ctx), doclock.ErrOutcomeUnknown, context.DeadlineExceeded)
		if e := h.want("waiting 1", "gave up 1", "outcome unknown 1")[2]; !errors.Is(e.Err, context.DeadlineExceeded) || !e.DocumentID.Equal(ticket.DocumentID()) || e.Tag != "write" {
			p.Errorf("unknown: %+v", e)
		}
		p.want(ticket.Cancel(ctx), doclock.ErrOutcomeUnknown)
		must(p, ticket.Cancel(p.Context()))
		p.rest(l)
		h.want()
	})
}
