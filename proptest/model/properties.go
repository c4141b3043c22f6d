package model

import (
	"fmt"
	"slices"
)

// violation is a property that did not hold.
type violation struct {
	property string
	detail   string
}

func (v *violation) Error() string { return v.property + ": " + v.detail }

// fail notes the first violation.
func (w *world) fail(property, format string, args ...any) {
	if w.broken == nil {
		w.broken = &violation{property, fmt.Sprintf(format, args...)}
	}
}

// check looks at one executed command. The properties, and what they say:
//
//   - frame: a command touches no entry but its own, except that it may drop
//     what has expired; a release removes only its own.
//   - tokens: every grant raises lock.fence, and its token is above all others.
//   - exclusion: at a grant, the server tolerates who is there (see granted).
//   - presence: a guarded command that succeeds follows no conflicting grant.
//   - once: no update is applied twice, nor after its client was told that it
//     was not applied; and one that may be applied is.
//   - belief: see checkBelief. honoured: who believes has a live entry.
//   - queue: see checkQueue. leak: an id that is done with is not there.
func (w *world) check(ev event) {
	if w.cfg.strangers != erases {
		w.checkFrame(ev)
		w.checkRefused(ev)
		w.checkGuard(ev)
	}
	w.checkApplied(ev)
	w.checkGrants(ev)
}

// entries calls f for every entry.
func (d *Document) entries(f func(Tag, Entry)) {
	if d == nil {
		return
	}
	for _, b := range d.Lock.Tags {
		for _, e := range b.Entries {
			f(b.Tag, e)
		}
	}
}

func (w *world) checkFrame(ev event) {
	if ev.before == ev.after {
		return
	}
	own := func(id ID) bool { return id == ev.lease.ID || ev.second != 0 && id == ev.second }
	ev.before.entries(func(tag Tag, e Entry) {
		after, there := ev.after.Find(tag, e.ID)
		switch {
		case !there && !own(e.ID) && e.Live(ev.now):
			w.fail("frame", "%v removed the live entry %d", ev.op, e.ID)
		case !there && ev.handsOver() && e.ID == ev.second:
			w.fail("frame", "%v removed the heir's entry %d: it loses its place", ev.op, e.ID)
		case there && !own(e.ID) && after != e:
			w.fail("frame", "%v changed entry %d", ev.op, e.ID)
		case there && after.Expires < e.Expires && !w.cfg.lenient:
			w.fail("frame", "%v shortened entry %d", ev.op, e.ID)
		}
	})
	ev.after.entries(func(tag Tag, e Entry) {
		_, there := ev.before.Find(tag, e.ID)
		switch {
		case !there && !own(e.ID):
			w.fail("frame", "%v made entry %d", ev.op, e.ID)
		case !there && ev.handsOver() && !e.Held():
			w.fail("frame", "%v left the heir's entry %d, which it did not grant", ev.op, e.ID)
		}
	})
}

// checkGrants looks for a held entry that was not held with that token before.
func (w *world) checkGrants(ev event) {
	if ev.before == ev.after {
		return
	}
	ev.after.entries(func(tag Tag, e Entry) {
		before, there := ev.before.Find(tag, e.ID)
		if !e.Held() || there && before.Fence == e.Fence {
			return
		}
		if w.cfg.strangers != erases {
			if e.Fence <= w.ghost.top || e.Fence != ev.after.Lock.Fence {
				w.fail("tokens", "%v gave token %d after %d", ev.op, e.Fence, w.ghost.top)
			}
			w.granted(ev, tag, e, there)
		}
		w.ghost.top = max(w.ghost.top, e.Fence)
		w.ghost.grants = append(w.ghost.grants, grant{Lease: Lease{tag, e.ID, e.Fence}})
	})
}

// granted checks the grant of e against who was there just before. A fresh
// arrival tolerates so many live entries, held or waiting; a waiting entry so
// many that are held or earlier. Leases that don't count at this moment, and
// whom the new holder respects, are excluded from now on.
func (w *world) granted(ev event, tag Tag, e Entry, waited bool) {
	table := w.cfg.table(owner(e.ID))
	counts := map[Tag]int{}
	ev.before.entries(func(t Tag, o Entry) {
		if o.ID != e.ID && o.ID != ev.lease.ID && o.Live(ev.now) && (!waited || o.Held() || o.Seq < e.Seq) {
			counts[t]++
		}
	})
	for t, n := range counts {
		if allow, respects := table.limit(tag, t); respects && n > allow {
			w.fail("exclusion", "%v let in %d of tag %s beside %d of tag %s", ev.op, e.ID, tag, n, t)
		}
	}
	for i := range w.ghost.grants {
		g := &w.ghost.grants[i]
		if _, respects := table.limit(tag, g.Tag); !respects || g.excluded {
			continue
		}
		if o, there := ev.before.Find(g.Tag, g.ID); !there || o.Fence != g.Fence || !o.Live(ev.now) {
			g.excluded = true
		}
	}
}

// checkGuard: presence is the truth. A guarded command that succeeds proves
// that nobody was let in whom the lease should have kept out.
func (w *world) checkGuard(ev event) {
	switch ev.outcome {
	case Applied, Released:
	default:
		if !ev.handsOver() || ev.outcome == NotApplied {
			return
		}
	}
	if ev.lease.Fence == 0 {
		return
	}
	for _, g := range w.ghost.grants {
		if g.Lease == ev.lease && g.excluded {
			w.fail("presence", "%v succeeded for %d with token %d after a conflicting grant", ev.op, g.ID, g.Fence)
		}
	}
}

// checkApplied: every update is applied at most once, and not after its
// client was told that it wasn't.
func (w *world) checkApplied(ev event) {
	if ev.u == 0 || ev.after == nil || ev.before == nil || len(ev.after.Log) == len(ev.before.Log) {
		return
	}
	if w.cfg.strangers != erases {
		if slices.Contains(w.ghost.applied, ev.u) {
			w.fail("once", "update %d was applied twice", ev.u)
		}
		if slices.Contains(w.ghost.denied, ev.u) {
			w.fail("once", "update %d was applied after the verdict that it was not", ev.u)
		}
	}
	w.ghost.applied = append(w.ghost.applied, ev.u)
}

// checkRefused: a guarded write with the right token and a number that was
// not used is applied.
func (w *world) checkRefused(ev event) {
	if ev.outcome != NotApplied || ev.op == opSet {
		return
	}
	if _, there := ev.before.guarded(ev.lease, false); there && !slices.Contains(w.ghost.applied, ev.u) {
		w.fail("once", "update %d was refused though its lease stands", ev.u)
	}
}

// verdict compares what a client concludes about its update with the truth.
func (w *world) verdict(c *client, u Update, applied bool) {
	truth := slices.Contains(w.ghost.applied, u)
	if applied && !truth {
		w.fail("once", "verdict applied, but update %d was not", u)
	}
	if !applied && truth {
		// Erased and then granted above the old token: it can't be told.
		if w.ghost.erased && w.doc != nil && w.doc.Lock.Fence >= c.fence {
			return
		}
		w.fail("once", "verdict not applied, but update %d was", u)
	}
	if !applied && !slices.Contains(w.ghost.denied, u) {
		w.ghost.denied = append(w.ghost.denied, u)
	}
}

// ordered: a waiting entry keeps its place from ticket to grant.
func (w *world) ordered(c *client, e Entry) {
	if e.Seq != c.seq {
		w.fail("queue", "entry %d came back with seq %d, its ticket says %d", c.id, e.Seq, c.seq)
	}
}

// checkState looks at the state between two steps.
func (w *world) checkState() {
	if w.cfg.strangers != nobody {
		return
	}
	w.checkBelief()
	w.checkQueue()
	for _, id := range w.ghost.settled {
		if _, there := w.doc.Find(w.cfg.tags[owner(id)], id); there {
			w.fail("leak", "entry %d is in the document, and nobody knows", id)
		}
	}
}

// checkBelief is exclusion on true time: no client believes together with
// more than the allowed number of earlier holders whom it respects, each by
// its own belief. And nobody believes whose lease is excluded.
func (w *world) checkBelief() {
	for i := range w.clients {
		c := &w.clients[i]
		if !c.believes(w.time) {
			continue
		}
		lease := Lease{w.cfg.tags[i], c.id, c.fence}
		counts := map[Tag]int{}
		for j := range w.clients {
			if o := &w.clients[j]; j != i && o.believes(w.time) && o.fence < c.fence {
				counts[w.cfg.tags[j]]++
			}
		}
		for t, n := range counts {
			if allow, respects := w.cfg.table(i).limit(lease.Tag, t); respects && n > allow {
				w.fail("belief", "client %d (tag %s) holds beside %d believers of tag %s", i, lease.Tag, n, t)
			}
		}
		for _, g := range w.ghost.grants {
			if g.Lease == lease && g.excluded {
				w.fail("belief", "client %d believes in token %d after a conflicting grant", i, c.fence)
			}
		}
		if w.cfg.lenient {
			continue
		}
		if e, there := w.doc.guarded(lease, false); !there || !e.Live(w.now()) {
			w.fail("honoured", "client %d believes in entry %d, which the server does not honour", i, c.id)
		}
	}
}

// checkQueue: once the held entries have gone, every waiting entry is granted
// in its turn.
func (w *world) checkQueue() {
	d, n := withoutHeld(w.doc)
	for range n {
		tag, e := d.earliest()
		if e.ID == 0 {
			return // the rest had expired
		}
		r := w.request(owner(e.ID), e.ID)
		after, outcome, _ := w.cfg.protocol.Confirm(d, r, w.now())
		if outcome != Granted && e.Live(w.now()) {
			w.fail("queue", "entry %d waits for ever", e.ID)
			return
		}
		d = after.clone()
		d.remove(tag, e.ID)
	}
}

// withoutHeld is the document without its held entries, and how many wait.
func withoutHeld(d *Document) (*Document, int) {
	n := 0
	d.entries(func(_ Tag, e Entry) {
		if !e.Held() {
			n++
		}
	})
	if n == 0 {
		return d, 0
	}
	c := d.clone()
	d.entries(func(tag Tag, e Entry) {
		if e.Held() {
			c.remove(tag, e.ID)
		}
	})
	return c, n
}

// earliest is the entry with the lowest seq.
func (d *Document) earliest() (tag Tag, first Entry) {
	d.entries(func(t Tag, e Entry) {
		if first.ID == 0 || e.Seq < first.Seq {
			tag, first = t, e
		}
	})
	return tag, first
}
