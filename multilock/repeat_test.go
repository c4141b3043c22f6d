package multilock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// This file has acquires by filters that ask for more than an _id: a condition that the
// acquire's own effect ends, and conditions that a document made by Upsert may not meet.

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
		waiter := begin(p, func() (doclock.Lease, error) { return l.Acquire(p.Context(), second, "slot") })
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

// Whatever the filter and the faults are, an acquire with Upsert is granted a document
// that matches, or leaves none; and it never says of one that matches that it is not there.
func TestUpsertByAnyFilter(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive(), doclock.Upsert())
		next := 100
		rapid.Check(p, func(t *rapid.T) {
			next++
			filter := append(bson.D{{Key: "_id", Value: next}}, anyConditions(t)...)
			there := rapid.Bool().Draw(t, "there")
			if there {
				must(p, errOf(p.coll.InsertOne(p.Context(), bson.D{{Key: "_id", Value: next}, {Key: "a", Value: rapid.SampledFrom(values).Draw(t, "its a")}})))
			}
			matched := p.count(filter) == 1
			p.mem.LoseReplies(rapid.IntRange(0, 2).Draw(t, "lost replies"), locktest.Acquires)
			ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
			defer cancel()
			lease, err := l.TryAcquire(ctx, filter, "write")
			p.mem.LoseReplies(0)
			n := p.count(bson.D{{Key: "_id", Value: next}})
			switch {
			case err == nil:
				p.release(lease)
				if p.count(slices.DeleteFunc(filter, func(c bson.E) bool { return strings.HasPrefix(c.Key, "lock.") })) != 1 {
					t.Fatalf("%v: granted, and the document doesn't match", filter)
				}
			case errors.Is(err, doclock.ErrNotFound) && (matched || !there && n != 0):
				t.Fatalf("%v: %v; it matched: %t; there are %d documents", filter, err, matched, n)
			case there != (n == 1):
				t.Fatalf("%v: %v, and it leaves %d documents", filter, err, n)
			case there && !matched && !errors.Is(err, doclock.ErrNotFound):
				t.Fatalf("%v: %v, want ErrNotFound", filter, err)
			}
		})
	})
}

// count is how many documents match.
func (p *place) count(filter any) int64 {
	p.Helper()
	n, err := p.coll.CountDocuments(p.Context(), filter)
	must(p, err)
	return n
}

var values = []any{nil, 1, 2, "x", true, bson.A{1, nil}, bson.D{{Key: "b", Value: 1}}}

// anyConditions draws conditions beside an _id, one for each path.
func anyConditions(t *rapid.T) (all bson.D) {
	paths := []string{"a", "a.b", "c", "lock.tags.write.0", "lock.fence", "lock.tags.read"}
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		path := rapid.SampledFrom(paths).Draw(t, "path")
		if slices.ContainsFunc(all, func(e bson.E) bool { return e.Key == path }) {
			continue
		}
		value := rapid.SampledFrom(values).Draw(t, "value")
		operator := rapid.SampledFrom([]string{"", "$ne", "$gt", "$lt", "$in", "$nin", "$exists", "$not"}).Draw(t, "operator")
		switch operator {
		case "$in", "$nin":
			value = bson.D{{Key: operator, Value: bson.A{value, 7}}}
		case "$exists":
			value = bson.D{{Key: operator, Value: rapid.Bool().Draw(t, "exists")}}
		case "$not":
			value = bson.D{{Key: operator, Value: bson.D{{Key: "$gt", Value: value}}}}
		case "":
		default:
			value = bson.D{{Key: operator, Value: value}}
		}
		all = append(all, bson.E{Key: path, Value: value})
	}
	return all
}
