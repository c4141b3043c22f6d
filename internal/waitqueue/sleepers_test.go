package waitqueue

import (
	"errors"
	"iter"
	"math/bits"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
)

// crowded is a queue with many readers behind a writer of the same process.
type crowded struct {
	*Queues
	*hand
	writer  engine.Entry
	readers []*Waiter
}

func (c *crowded) time() time.Time { return time.UnixMilli(0).Add(c.at) }

// freed has the writer release the lock.
func (c *crowded) freed() {
	c.Released(engine.Grant{Pin: pinOfOne, Entry: engine.Entry{ID: c.writer.ID}})
}

// asking are the readers that may ask, each in its turn.
func (c *crowded) asking() iter.Seq2[int, *Waiter] {
	return func(yield func(int, *Waiter) bool) {
		for i, w := range c.readers {
			if w.state == asking && !yield(i, w) {
				return
			}
		}
	}
}

// Whatever becomes of many waiters that don't depend on each other, the visits for
// each grow with the logarithm of their number.
func TestManyCompatibleWaiters(t *testing.T) {
	t.Parallel()
	const n = 1024
	most := 8 * n * bits.Len(n)
	for name, fate := range map[string]func(c *crowded){
		"each is granted its own entry": func(c *crowded) {
			c.freed()
			for i, w := range c.asking() {
				own := heldBy("read", int64(10+i), c.time().Add(time.Hour))
				own.ID = w.ID
				c.Settle(w, Result{ID: w.ID, Held: w.ID, Image: image(int64(10+i), c.time(), own), Document: keyOfOne})
				c.Leave(w)
				c.Released(engine.Grant{Pin: pinOfOne, Entry: engine.Entry{ID: w.ID}})
			}
		},
		"each is refused because of another process's writer": func(c *crowded) {
			c.freed()
			theirs := image(9, c.time(), heldBy("write", 9, c.time().Add(time.Hour)))
			for _, w := range c.asking() {
				c.pass(time.Millisecond)
				settled(c.Queues, w, theirs)
			}
		},
		"each is refused though the lock looks free": func(c *crowded) {
			c.freed()
			for range 3 {
				for _, w := range c.asking() {
					c.pass(time.Millisecond / 4)
					settled(c.Queues, w, nil)
				}
			}
		},
		"each is refused, and there is news each time": func(c *crowded) {
			c.freed()
			for _, w := range c.asking() {
				settled(c.Queues, w, nil)
				c.Removed(keyOfOne, uuid.New())
			}
		},
		"all give up while they may ask": func(c *crowded) { c.freed() },
		"all give up while they sleep":   func(*crowded) {},
		"no server can be reached by all": func(c *crowded) {
			c.freed()
			for _, w := range c.readers {
				c.Fail(w, errors.New("no server"))
				c.Leave(w)
			}
		},
		"no server can be reached by one": func(c *crowded) {
			c.Fail(c.readers[0], errors.New("no server"))
		},
	} {
		for _, sharing := range []struct {
			name             string
			shared, document func(i int) bool
		}{
			{"each for itself", func(int) bool { return false }, func(int) bool { return false }},
			{"sharing", func(int) bool { return true }, func(int) bool { return false }},
			{"sharing, with the document", func(int) bool { return true }, func(int) bool { return true }},
			{"of all kinds", func(i int) bool { return i%3 > 0 }, func(i int) bool { return i%2 == 0 }},
		} {
			t.Run(name+", "+sharing.name, func(t *testing.T) {
				h := newHand()
				c := &crowded{Queues: handQueues(h, relations.ReadPreferring()), hand: h}
				c.writer = heldBy("write", 7, c.time().Add(time.Hour))
				held := Known{Image: image(7, c.time(), c.writer), Sent: h.now()}
				for i := range n {
					r := request("read", h)
					r.Shared, r.Document = sharing.shared(i), sharing.document(i)
					c.readers = append(c.readers, c.Enter(keyOfOne, r, held))
				}
				fate(c)
				for _, w := range c.readers {
					c.Leave(w)
				}
				if c.visits > most {
					t.Errorf("%d visits for %d waiters; want at most %d", c.visits, n, most)
				}
				t.Logf("%d visits, %d for each", c.visits, c.visits/n)
				if n := c.Documents(); n != 0 {
					t.Errorf("%d documents are remembered", n)
				}
			})
		}
	}
}
