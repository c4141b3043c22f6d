package model

import (
	"encoding/binary"
	"hash/maphash"
	"slices"
)

// keyer distinguishes states. Two worlds with the same key behave alike, so one
// of them is enough. Of numbers only their order matters, of times only the
// distance from now, and of the past only what a participant may still refer
// to. So it goes through a state twice: first it gathers the numbers and the ids.
type keyer struct {
	seed    maphash.Seed
	bytes   []byte
	numbers []int64 // every seq and fence in the world, sorted the second time
	ids     []ID    // every id that may still be used
	second  bool
}

func newKeyer() *keyer { return &keyer{seed: maphash.MakeSeed()} }

// key is a hash of the state. Among the some 10^5 states of one search, the
// chance that two have the same hash is below one in a billion.
func (k *keyer) key(w *world) uint64 {
	k.numbers, k.ids, k.second = k.numbers[:0], k.ids[:0], false
	k.world(w)
	slices.Sort(k.numbers)
	k.numbers, k.second = slices.Compact(k.numbers), true
	k.bytes = k.bytes[:0]
	k.world(w)
	return maphash.Bytes(k.seed, k.bytes)
}

func (k *keyer) world(w *world) {
	k.rank(0)
	k.document(w, w.doc)
	k.document(w, w.old)
	k.put(w.offsets...)
	k.members(w)
	k.put(int64(w.steps), int64(w.faults), int64(w.outsideWrites), int64(w.beats), bit(w.ghost.erased))
	for _, t := range w.tokens {
		k.bytes = append(k.bytes, t.Tag...)
		k.put(int64(t.Key))
	}
	for i := range w.clients {
		k.client(w, &w.clients[i])
	}
	k.put(int64(len(w.flight)))
	for i := range w.flight {
		k.message(w, &w.flight[i])
		k.used(ID(w.flight[i].u / 100))
	}
	for _, g := range w.ghost.grants {
		if slices.Contains(k.ids, g.ID) {
			k.rank(g.Fence, g.line)
			k.put(int64(g.ID), int64(g.by), bit(g.excluded), bit(g.released), bit(g.dropped))
			k.put(max(0, g.hold-w.time), max(0, g.limit-w.time))
		}
	}
	for _, us := range [][]Update{w.ghost.applied, w.ghost.denied} {
		k.put(-1)
		for _, u := range us {
			if slices.Contains(k.ids, ID(u/100)) {
				k.put(int64(u))
			}
		}
	}
	k.put(-1)
	for _, id := range w.ghost.settled {
		if slices.Contains(k.ids, id) {
			k.put(int64(id))
		}
	}
}

// members distinguishes what the members of a replica set have.
func (k *keyer) members(w *world) {
	if len(w.members) == 1 {
		return
	}
	k.put(int64(w.leader), int64(w.elections), max(-w.cfg.ttl, w.ghost.born-w.time))
	for i := range w.members {
		p := &w.members[i]
		k.put(bit(p.primary), bit(len(p.tail) > 0))
		k.document(w, p.known)
		if i != w.leader { // of what is never committed, the outcome is enough
			k.document(w, w.latest(i))
			continue
		}
		k.put(int64(len(p.tail)))
		for j := range p.tail {
			ev := &p.tail[j]
			k.message(w, &ev.message)
			k.used(ID(ev.u / 100))
			k.put(ev.now-w.time, ev.at-w.time, bit(ev.orphan))
			k.bytes = append(k.bytes, ev.outcome...)
			k.document(w, ev.after)
		}
	}
}

func (k *keyer) document(w *world, d *Document) {
	if d == nil {
		k.put(-1)
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
	k.put(int64(d.Field))
	k.rank(d.Lock.Fence)
	for _, b := range d.Lock.Tags {
		k.bytes = append(k.bytes, b.Tag...)
		k.put(int64(len(b.Entries)))
		for _, e := range b.Entries {
			k.used(max(e.ID, -e.ID))
			k.rank(e.Seq, e.Fence)
			k.put(int64(e.ID), max(e.Expires, dead)-w.time, int64(e.N))
			k.put(int64(e.Key), bit(e.Detached), max(e.Until, dead)-w.time)
		}
	}
	k.put(-1)
	for _, id := range d.Lock.Done {
		k.put(int64(id))
	}
}

func (k *keyer) client(w *world, c *client) {
	k.used(c.id, c.own)
	k.rank(c.seq, c.fence, c.sole)
	k.put(int64(c.phase), int64(c.round), int64(c.id), max(0, c.valid-w.time),
		int64(c.writes), int64(c.newest), bit(c.unknown), bit(c.awaits), int64(c.before))
	k.bytes = append(k.bytes, c.tag...)
	k.put(int64(c.own), int64(c.lowers), int64(c.key), max(0, c.was-w.time), max(0, c.keeps-w.time))
	k.message(w, &c.last)
}

func (k *keyer) message(w *world, m *message) {
	if *m == (message{}) {
		k.put(-1)
		return
	}
	k.used(m.lease.ID, m.second, m.next.ID)
	k.rank(m.lease.Fence, m.next.Fence, m.f)
	k.bytes = append(k.bytes, m.lease.Tag...)
	k.bytes = append(k.bytes, m.next.Tag...)
	k.put(int64(m.key), int64(m.next.ID), m.rest)
	k.put(int64(m.op), int64(m.from), int64(m.to), int64(m.lease.ID), int64(m.second), bit(m.waits),
		int64(m.k), int64(m.u), max(0, m.until-w.time))
	// A lease that counts from a send a whole TTL ago is not valid any more.
	k.put(max(-w.cfg.ttl, m.sent-w.time), bit(m.parsed != 0))
	if m.parsed != 0 {
		k.put(m.parsed - w.time)
	}
}

// used notes ids. Whose id is used is of interest for what comes after the members, clients and messages.
func (k *keyer) used(ids ...ID) {
	if !k.second {
		k.ids = append(k.ids, ids...)
	}
}

// rank notes numbers, or puts their places in the order of all numbers.
func (k *keyer) rank(numbers ...int64) {
	if !k.second {
		k.numbers = append(k.numbers, numbers...)
		return
	}
	for _, n := range numbers {
		i, _ := slices.BinarySearch(k.numbers, n)
		k.put(int64(i))
	}
}

func (k *keyer) put(vs ...int64) {
	for _, v := range vs {
		k.bytes = binary.AppendVarint(k.bytes, v)
	}
}

func bit(b bool) int64 {
	if b {
		return 1
	}
	return 0
}
