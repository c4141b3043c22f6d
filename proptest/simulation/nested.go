package simulation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// nested acquires, inside of a Do, what its context holds.
func (r runner) nested(ctx context.Context, p *program, h *holding) error {
	name, _ := h.lease.DocumentID().StringValueOK()
	pl := r.planFor(p, h.group, name)
	for range 2 { // a reader reads again, more often than chance has it
		if pl.tag != h.lease.Tag() {
			pl = r.planFor(p, h.group, name)
		}
	}
	if h.group.terms {
		pl.owner = fmt.Sprint("nested ", r.writes.Add(1), " of ", r.number)
		pl.add(doclock.Owner(pl.owner))
	}
	ctx, cancel := r.patienceIn(ctx)
	defer cancel()
	method, get := "TryAcquire", acquires(pl.locker.TryAcquire)
	if !r.one(3) {
		r.waiting(&pl)
		method, get = "Acquire", pl.locker.Acquire
	}
	if !r.one(4) {
		r.beside(name, h.group)
	}
	stop := r.watch(h, &pl)
	next := r.get(ctx, p, method, &pl, get)
	stop()
	var c *doclock.ConflictError
	if errors.As(pl.by.err, &c) && slices.ContainsFunc(c.Holders, func(h doclock.Holder) bool { return h.InContext && h.Waiting }) {
		r.mu.Lock()
		r.behind++
		r.mu.Unlock()
	}
	r.use(next)
	if next == nil && r.one(2) {
		return fmt.Errorf("%w: %w", errWork, pl.by.err)
	}
	return nil
}

// beside has another goroutine acquire the same document, from outside, and gives it the
// time to wait.
func (r runner) beside(name string, g *group) {
	other := r.runner(1000*(1+r.number) + int(r.writes.Add(1)))
	p := r.programs[r.IntN(len(r.programs))]
	r.others.Go(func() {
		pl := other.planFor(p, g, name)
		ctx, cancel := other.patience()
		defer cancel()
		other.use(other.get(ctx, p, "Acquire", &pl, pl.locker.Acquire))
	})
	r.pause(200 * time.Millisecond)
}

// watch looks, while a nested acquire runs, whether it waits for itself: then it has a
// few seconds to notice. With faults nobody can say when it should have.
func (r runner) watch(h *holding, pl *plan) (done func()) {
	const look, most = 500 * time.Millisecond, 6
	ctx, stop := context.WithCancel(context.Background())
	if !r.exact() || r.faulty || pl.owner == "" {
		return stop
	}
	over := make(chan struct{})
	go func() {
		defer close(over)
		for n := 0; n < most; {
			select {
			case <-ctx.Done():
				return
			case <-time.After(look):
			}
			if n++; !r.waitsForItself(ctx, h, pl) {
				n = 0
			}
		}
		r.fault("%q of %s waits for itself for %v, inside of %q", pl.tag, pl.owner, most*look, h.lease.Tag())
	}()
	return func() { stop(); <-over }
}

// lockEntry is an entry as it is in the document.
type lockEntry struct {
	ID         bson.Binary
	Owner      string
	Seq, Fence int64
	Expires    time.Time
	tag        string
}

// waitsForItself says that an acquire isn't granted, though all others do what they can:
// those who hold release, and those who wait are granted, and release.
func (r runner) waitsForItself(ctx context.Context, h *holding, pl *plan) bool {
	var doc struct {
		Lock struct{ Tags map[string][]*lockEntry }
	}
	if err := r.mem.Client().Database("test").Collection("orders").FindOne(ctx, bson.M{"_id": pl.document}).Decode(&doc); err != nil {
		return false
	}
	var there []*lockEntry
	var own *lockEntry
	for tag, entries := range doc.Lock.Tags {
		for _, e := range entries {
			if e.tag = tag; e.Expires.After(time.Now()) {
				there = append(there, e)
			}
			if e.Owner == pl.owner {
				own = e
			}
		}
	}
	id := h.lease.ID()
	for {
		leaves := slices.IndexFunc(there, func(e *lockEntry) bool {
			if e.Fence > 0 {
				return uuid.UUID(e.ID.Data) != id || h.lease.Err() != nil
			}
			return e != own && !keptBack(pl.group.rules, there, e.tag, e)
		})
		if leaves < 0 {
			return (own == nil || own.Fence == 0) && keptBack(pl.group.rules, there, pl.tag, own)
		}
		there = slices.Delete(there, leaves, leaves+1)
	}
}

// keptBack says that an arrival, or the waiting entry own, is kept back.
func keptBack(rules relations.Rules, there []*lockEntry, tag string, own *lockEntry) bool {
	count := map[string]int{}
	for _, e := range there {
		if own == nil || e != own && (e.Fence > 0 || e.Seq < own.Seq) {
			count[e.tag]++
		}
	}
	for other, n := range count {
		if relation := rules[tag][other]; relation.Kind != relations.None && n > relation.Allow {
			return true
		}
	}
	return false
}
