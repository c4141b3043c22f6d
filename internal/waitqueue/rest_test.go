package waitqueue

import (
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
)

// may takes the waiter's next step, as Await does, and says how long it would sleep.
func may(q *Queues, w *Waiter) (bool, time.Duration) {
	return q.next(w, false)
}

func settled(q *Queues, w *Waiter, img *engine.Image) {
	q.Report(w, Result{ID: w.ID, Image: img, Document: keyOfOne})
}

// A refused waiter doesn't ask again without a pause, whatever the view says;
// and at once when something has made way since.
func TestWhoWasRefusedRests(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	for name, answer := range map[string]*engine.Image{
		"no image": nil,

		"an image with nobody in the way":    image(7, now),
		"an image with whoever is long dead": image(7, now, heldBy("write", 7, now.Add(-time.Hour))),
	} {
		t.Run(name, func(t *testing.T) {
			h := newHand()
			q := handQueues(h, relations.Exclusive())
			w := q.Enter(keyOfOne, request("write", h), Known{})
			for i := range 3 {
				if may, _ := may(q, w); !may {
					t.Fatalf("it may not ask, time %d", i)
				}
				w.queue.view.changed = 0 // nothing has, for long
				settled(q, w, answer)
				if may, pause := may(q, w); may || pause < engine.DefaultPollInterval/2 {
					t.Fatalf("refused, it may ask again: %v, after %v", may, pause)
				}
				other := q.Enter(keyOfOne, request("write", h), Known{}) // has the queue judged
				if may, _ := may(q, w); may {
					t.Fatal("refused, it asks when it is woken")
				}
				q.Leave(other)
				q.Released(engine.Grant{Pin: pinOfOne, Entry: engine.Entry{ID: uuid.New()}})
			}
		})
	}
}

// The first waiter asks for a place if its tag waits for the entries in the way. It does
// not ask if one of them refuses it.
func TestTheFirstAsksForAPlaceWhereItsTagWaits(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	for tag, asks := range map[string]bool{"read": true, "write": false, "unknown": false} {
		h := newHand()
		q := handQueues(h, relations.WritePreferring())
		w := q.Enter(keyOfOne, request("write", h), Known{
			Image: image(7, now, heldBy(tag, 7, now.Add(time.Hour))), Sent: h.now(), Answered: h.now(),
		})
		if may, _ := may(q, w); may != asks {
			t.Errorf("beside %q: it asks: %v, want %v", tag, may, asks)
		}
	}
}

// What makes way while a waiter asks may have done so after it was refused.
func TestNewsOnTheWay(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(1_000_000)
	h := newHand()
	q := handQueues(h, relations.Exclusive())
	w := q.Enter(keyOfOne, request("write", h), Known{})
	holder := heldBy("write", 7, now.Add(time.Hour))
	h.pass(1)
	q.Released(engine.Grant{Pin: pinOfOne, Entry: engine.Entry{ID: holder.ID}})
	settled(q, w, image(7, now, holder))
	if w.state != asking {
		t.Error("it rests, though the holder has left meanwhile")
	}
}

// A waiter whose answer is of another document leaves its queue, and the next one there asks.
func TestAWaiterThatMovesHasASuccessor(t *testing.T) {
	t.Parallel()
	h := newHand()
	q := handQueues(h, relations.Exclusive())
	w, next := q.Enter(keyOfOne, request("write", h), Known{}), q.Enter(keyOfOne, request("write", h), Known{})
	now := time.UnixMilli(1_000_000)
	q.Report(w, Result{ID: w.ID, Image: image(7, now, heldBy("write", 7, now.Add(time.Hour))), Document: "another"})
	if next.state != asking {
		t.Error("nobody asks for the document that it has left")
	}
}

// Waiters with places in the document are served in the order of those, before
// waiters without a place.
func TestPlacesComeFirst(t *testing.T) {
	t.Parallel()
	h := newHand()
	q := handQueues(h, relations.Fair())
	place := func(seq int64) Known { return Known{Place: Place{Seq: seq, Confirm: time.Hour}} }
	first, arriving, second, third := request("write", h), request("write", h), request("write", h), request("write", h)
	head := q.Enter(keyOfOne, arriving, Known{})
	q.Enter(keyOfOne, request("write", h), Known{})
	q.Enter(keyOfOne, third, place(9))
	q.Enter(keyOfOne, first, place(5))
	q.Enter(keyOfOne, second, place(7))
	order := func() (ids []uuid.UUID) {
		for _, w := range q.queues[keyOfOne].tags["write"].waiters {
			ids = append(ids, w.ID)
		}
		return ids
	}
	if got := order(); got[0] != first.ID || got[1] != second.ID || got[2] != third.ID || got[3] != arriving.ID {
		t.Errorf("the order is %v", got)
	}
	q.Report(head, Result{ID: arriving.ID, Place: Place{Seq: 6, Confirm: time.Hour}})
	if got := order(); got[0] != first.ID || got[1] != arriving.ID || got[2] != second.ID || got[3] != third.ID {
		t.Errorf("with a place of its own, the order is %v", got)
	}
}

// A refused waiter asks when the entry in its way expires, however long it would rest.
func TestARestEndsWhenTheLockIsFree(t *testing.T) {
	t.Parallel()
	const left = 20 * time.Millisecond
	now := time.UnixMilli(1_000_000)
	q := handQueues(newHand(), relations.Exclusive())
	w, img := q.Enter(keyOfOne, request("write", newHand()), Known{}), image(7, now, heldBy("write", 7, now.Add(left)))
	settled(q, w, img)
	w.queue.poll(w)
	w.queue.view.changed = 0 // nothing has, for long
	settled(q, w, img)
	if may, pause := may(q, w); may || pause <= 0 || pause > 2*left {
		t.Errorf("it may ask: %v, after %v; the lock is free after %v", may, pause, left)
	}
}
