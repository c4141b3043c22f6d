package model

import (
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/doclock/doclock/proptest/model/interleave"
)

// explore searches every interleaving of a world, down to a depth or to a number of states.
func explore(cfg config, depth, most int) interleave.Report { return space(&cfg).Search(depth, most) }

// space is a world with all its interleavings.
func space(cfg *config) interleave.Space[world, action] {
	var keys keyer
	return interleave.Space[world, action]{
		Name:  fmt.Sprintf("rules %v, clients %v", cfg.ruleSets, cfg.tags),
		Start: newWorld(cfg),
		Next:  (*world).actions,
		Step:  func(w *world, a action) (world, interleave.Violation) { n := w.step(a); return n, n.broken },
		Tell:  (*world).tell,
		Key:   keys.key,
	}
}

// keyer distinguishes states. Two worlds with the same key behave alike, so one
// of them is enough. Of numbers only their order matters, of times only the
// distance from now, and of the past only what a participant may still refer
// to. So it goes through a state twice: first it gathers the numbers and the ids.
// The second time it hashes each part of the state in this form.
type keyer struct {
	hash    maphash.Hash
	numbers []int64 // every seq and fence in the world, sorted the second time
	ids     []ID    // every id that may still be used
	second  bool
}

// key is a hash of the state. Among the some 10^5 states of one search, the
// chance that two have the same hash is below one in a billion.
func (k *keyer) key(w *world) uint64 {
	k.numbers, k.ids, k.second = append(k.numbers[:0], 0), k.ids[:0], false
	k.world(w)
	slices.Sort(k.numbers)
	k.numbers, k.second = slices.Compact(k.numbers), true
	k.hash.Reset()
	k.world(w)
	return k.hash.Sum64()
}

func (k *keyer) world(w *world) {
	k.document(w, w.doc)
	k.document(w, w.old)
	for _, offset := range w.offsets {
		put(k, offset)
	}
	k.members(w)
	put(k, w.limits)
	put(k, [...]int{len(w.tokens), len(w.flight)})
	put(k, w.ghost.erased)
	put(k, w.ghost.undone)
	if w.doc == nil { // when it may be made anew
		put(k, max(-1, w.ghost.top-w.slowest()))
	}
	for _, t := range w.tokens {
		put(k, t)
	}
	for _, c := range w.clients {
		k.used(c.id, c.own)
		k.rank(&c.seq, &c.fence, &c.sole)
		c.valid, c.was = max(0, c.valid-w.time), max(0, c.was-w.time)
		c.last = k.message(w, c.last)
		put(k, c)
	}
	for _, m := range w.flight {
		put(k, k.message(w, m))
		k.used(ID(m.u / 100))
	}
	for _, g := range w.ghost.grants {
		if slices.Contains(k.ids, g.ID) {
			k.rank(&g.Fence, &g.line)
			g.hold, g.limit = max(0, g.hold-w.time), max(0, g.limit-w.time)
			put(k, g)
		}
	}
	for _, us := range [][]Update{w.ghost.applied, w.ghost.denied} {
		put(k, -1) // the next list begins
		for _, u := range us {
			if slices.Contains(k.ids, ID(u/100)) {
				put(k, u)
			}
		}
	}
	put(k, -1)
	for _, ids := range [][]ID{w.ghost.settled, w.ghost.spared} {
		put(k, -1)
		for _, id := range ids {
			if slices.Contains(k.ids, id) {
				put(k, id)
			}
		}
	}
}

// members distinguishes what the members of a replica set have.
func (k *keyer) members(w *world) {
	if len(w.members) == 1 {
		return
	}
	put(k, w.leader)
	put(k, max(-w.cfg.ttl, w.ghost.born-w.time))
	for i := range w.members {
		p := &w.members[i]
		put(k, [...]bool{p.primary, len(p.tail) > 0})
		k.document(w, p.known)
		if i != w.leader { // of what is never committed, the outcome is enough
			k.document(w, w.latest(i))
			continue
		}
		put(k, len(p.tail))
		for j := range p.tail {
			ev := &p.tail[j]
			put(k, k.message(w, ev.message))
			k.used(ID(ev.u / 100))
			put(k, [...]int64{ev.now - w.time, ev.at - w.time})
			put(k, ev.orphan)
			put(k, ev.outcome)
			k.document(w, ev.after)
		}
	}
}

func (k *keyer) document(w *world, d *Document) {
	put(k, d != nil)
	if d == nil {
		return
	}
	// If every command that may still be executed finds the entry expired, it
	// is dead, no matter for how long.
	dead := w.slowest()
	for i := range w.flight {
		if parsed := w.flight[i].parsed; parsed != 0 {
			dead = min(dead, parsed)
		}
	}
	for _, ev := range w.members[w.leader].tail {
		dead = min(dead, ev.now)
	}
	put(k, w.cfg.state && len(d.Log) > 0)
	fence, broken := d.Lock.Fence, d.Lock.Broken
	k.rank(&fence, &broken)
	put(k, d.Field)
	put(k, [...]int64{fence, broken})
	for _, b := range d.Lock.Tags {
		put(k, b.Tag)
		put(k, len(b.Entries))
		for _, e := range b.Entries {
			k.used(max(e.ID, -e.ID))
			k.rank(&e.Seq, &e.Fence)
			e.Since, e.Expires, e.Until = 0, max(e.Expires, dead)-w.time, max(e.Until, dead)-w.time
			put(k, e)
		}
	}
	put(k, len(d.Lock.Done))
	for _, id := range d.Lock.Done {
		put(k, id)
	}
}

// message is the message in the form that is hashed.
func (k *keyer) message(w *world, m message) message {
	if m == (message{}) {
		return m
	}
	k.used(m.lease.ID, m.second, m.next.ID, m.taken.ID)
	k.rank(&m.lease.Fence, &m.next.Fence, &m.taken.Fence, &m.f)
	m.until = max(0, m.until-w.time)
	m.sent = max(-w.cfg.ttl, m.sent-w.time) // a lease that counts from a send a whole TTL ago is not valid any more
	put(k, m.parsed != 0)
	if m.parsed != 0 {
		m.parsed -= w.time
	}
	return m
}

// used notes ids. Whose id is used is of interest for what comes after the members, clients and messages.
func (k *keyer) used(ids ...ID) {
	if !k.second {
		k.ids = append(k.ids, ids...)
	}
}

// rank notes numbers, or replaces them by their places in the order of all numbers.
func (k *keyer) rank(numbers ...*int64) {
	for _, n := range numbers {
		if k.second {
			i, _ := slices.BinarySearch(k.numbers, *n)
			*n = int64(i)
		} else {
			k.numbers = append(k.numbers, *n)
		}
	}
}

// put hashes a part of the state.
func put[T comparable](k *keyer, part T) {
	if k.second {
		maphash.WriteComparable(&k.hash, part)
	}
}
