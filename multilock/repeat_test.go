package multilock_test

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// This file has acquires by filters that ask for more than an _id.

// A filter that matches a free document stops matching by the acquire's own grant. A
// repeat after a lost reply finds that grant, by each call.
func TestRepeatWhoseFilterItsGrantEnds(t *testing.T) {
	t.Parallel()
	for name, ask := range asks {
		virtually(t, name, func(p *place) {
			l := p.plain(relations.Exclusive())
			for _, replies := range []int{0, 1, 3} {
				p.mem.LoseReplies(replies, locktest.Acquires)
				free := bson.M{"_id": 1, "lock.tags.write.0": bson.M{"$exists": false}}
				lease, err := ask(l, p.Context(), free, "write")
				if ok(p, err); lease != nil {
					p.release(lease)
				}
				p.wantEntries()
			}
		})
	}
}

// The same is true of a waiting entry, which is another one of its tag.
func TestRepeatWhoseFilterItsWaitEnds(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Semaphore(1))
		second := bson.M{"_id": 1, "lock.tags.slot.1": bson.M{"$exists": false}}
		first := p.try(l, "slot")
		p.mem.LoseReplies(2, locktest.Acquires)
		waiter := begin(p, func() (*doclock.Lease, error) { return l.Acquire(p.Context(), second, "slot") })
		p.waiting("slot")
		time.Sleep(2 * time.Second)
		p.release(first)
		p.release(p.granted(waiter))

		first = p.try(l, "slot")
		p.mem.LoseReplies(2, locktest.Acquires)
		ticket, err := l.Enqueue(p.Context(), second, "slot")
		must(p, err)
		p.release(first)
		p.release(p.got(ticket.Wait(p.Context())))
	})
}
