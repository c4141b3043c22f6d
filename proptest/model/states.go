package model

import (
	"cmp"
	"slices"
)

// checkState checks the state between two steps.
func (w *world) checkState() {
	if w.cfg.outside != nobody {
		return
	}
	w.checkValidity()
	w.checkQueue()
	w.checkHold()
	for _, e := range w.doc.All() {
		if slices.Contains(w.ghost.settled, e.ID) {
			w.fail("leak", "entry %d is in the document, and no client knows", e.ID)
		}
	}
}

// checkValidity is exclusion on true time: no lease is valid together with more
// than the allowed number of earlier valid leases that it respects. And no
// excluded lease is valid. The users of one token count as one: the leases of
// several of them may be valid, and only the last one's guard matches.
func (w *world) checkValidity() {
	for i := range w.clients {
		c := &w.clients[i]
		if !c.validAt(w.time) {
			continue
		}
		lease := Lease{c.tag, c.id, c.fence}
		own := w.grantOf(lease)
		counts := w.earlier(own)
		for t, n := range counts {
			if allow, respects := w.cfg.rules(own.by).limit(lease.Tag, t); respects && n > allow {
				w.fail("validity", "client %d (tag %s) has a valid lease beside %d of tag %s", i, lease.Tag, n, t)
			}
		}
		if own.excluded {
			w.fail("validity", "client %d has a valid lease with fence %d after a conflicting grant", i, c.fence)
		}
		if !w.stands(w.doc, own, w.now()) {
			w.fail("honoured", "client %d has a valid lease of entry %d, which the server does not honour", i, c.id)
		}
	}
}

// earlier counts the valid leases that were acquired before the grant's.
func (w *world) earlier(than *grant) map[Tag]int {
	counts, lines := map[Tag]int{}, map[int64]bool{}
	for i := range w.clients {
		o := &w.clients[i]
		if !o.validAt(w.time) {
			continue
		}
		if line := w.grantOf(Lease{o.tag, o.id, o.fence}).line; line < than.line && !lines[line] {
			lines[line] = true
			counts[o.tag]++
		}
	}
	return counts
}

// checkQueue checks that every waiting entry is granted in its turn when the
// held entries have left.
func (w *world) checkQueue() {
	var waiting []Entry
	for _, e := range w.doc.All() {
		if !e.Held() {
			waiting = append(waiting, e)
		}
	}
	if waiting == nil {
		return
	}
	d := w.doc.clone()
	for tag, e := range w.doc.All() {
		if e.Held() {
			d.remove(tag, e.ID)
		}
	}
	slices.SortFunc(waiting, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	for _, e := range waiting {
		r := w.request(owner(e.ID), e.ID)
		after, outcome, _ := w.cfg.protocol.Confirm(d, r, w.now())
		if outcome != Granted && e.Live(w.now()) {
			w.fail("queue", "entry %d waits for ever", e.ID)
		}
		d = after.clone()
		d.remove(r.Tag, e.ID)
	}
}
