package model

import "slices"

// The properties of tokens, downgrades and HoldAtLeast. A line is an acquire
// with all the resumes that come from it. Its present entry stands for all its
// handles: it keeps others out for each of them.

// grantOf is the record of the lease's grant.
func (w *world) grantOf(l Lease) *grant {
	for i := len(w.ghost.grants) - 1; i >= 0; i-- {
		if g := &w.ghost.grants[i]; g.ID == l.ID && g.Fence == l.Fence && g.Tag == l.Tag {
			return g
		}
	}
	return &grant{Lease: l, line: l.Fence, by: owner(l.ID)}
}

// entryOf is the record of the grant of a held entry, or of the lease that left
// the entry.
func (w *world) entryOf(tag Tag, e Entry) *grant {
	return w.grantOf(Lease{tag, max(e.ID, leftBy(e.ID)), e.Fence})
}

// newGrant is the record of a grant.
func (w *world) newGrant(ev event, l Lease) grant {
	g := grant{Lease: l, line: l.Fence, by: owner(l.ID)}
	switch ev.op {
	case opResume:
		if e, ok := ev.before.Keyed(Token{ev.lease.Tag, ev.key}); ok {
			old := w.entryOf(ev.lease.Tag, e)
			g.line, g.by, g.hold, g.limit = old.line, old.by, old.hold, old.limit
			if !e.Detached {
				g.limit = max(g.limit, e.Expires)
			}
		}
	case opSet, opDowngrade:
	default:
		if w.cfg.hold > 0 {
			g.hold = ev.at + w.cfg.hold
			g.limit = ev.now + w.cfg.hold + w.cfg.tolerance
		}
	}
	return g
}

// stands reports whether the line of the grant has a live held entry under the
// grant's tag.
func (w *world) stands(d *Document, g *grant, now int64) bool {
	for tag, e := range d.All() {
		if tag == g.Tag && e.Held() && e.Live(now) && w.entryOf(tag, e).line == g.line {
			return true
		}
	}
	return false
}

// checkResumed uses presence, as checkGuard does: the entry that a resume finds
// was there all the time. It belongs to the line whose lease was detached with
// the key: the model's keys are the ids of those leases.
func (w *world) checkResumed(ev event) {
	e, _ := ev.before.Keyed(Token{ev.lease.Tag, ev.key})
	g := w.entryOf(ev.lease.Tag, e)
	if g.excluded {
		w.fail("presence", "%v found entry %d with fence %d after a conflicting grant", ev.op, g.ID, g.Fence)
	}
	detached := func(o grant) bool { return o.line == g.line && o.ID == ev.key }
	if !slices.ContainsFunc(w.ghost.grants, detached) {
		w.fail("token", "%v by key %d found entry %d, which was never detached", ev.op, ev.key, e.ID)
	}
}

// checkEnded checks that a release leaves what a later resume has.
func (w *world) checkEnded(ev event) {
	if ev.op != opRelease || ev.before == ev.after {
		return
	}
	if e, _ := ev.before.Find(ev.lease.Tag, ev.lease.ID); e.Key != 0 && e.Fence != ev.lease.Fence {
		w.fail("last", "the release of %d with fence %d ended the lock of a later resume", ev.lease.ID, ev.lease.Fence)
	}
}

func (w *world) checkDetached(ev event) {
	if ev.outcome != Detached {
		return
	}
	if e, _ := ev.after.Find(ev.lease.Tag, ev.lease.ID); e.Expires < ev.now+w.cfg.ttl+w.cfg.tolerance {
		w.fail("extended", "%v left entry %d, which expires at %d", ev.op, e.ID, e.Expires)
	}
}

// markReleased records that a command released the entry of a grant, and
// whether its client never heard of the grant: the entry is then just removed.
func (w *world) markReleased(ev event) {
	if !ev.op.releases() || ev.before == ev.after {
		return
	}
	e, _ := ev.before.Find(ev.lease.Tag, ev.lease.ID)
	g := w.entryOf(ev.lease.Tag, e)
	g.released, g.dropped = true, g.dropped || ev.lease.Fence != e.Fence
}

// checkHold checks HoldAtLeast: until its time the line of a grant has an entry,
// and an entry that a release left never lives for longer than it should. Nor
// can it be resumed.
func (w *world) checkHold() {
	for i := range w.ghost.grants {
		g := &w.ghost.grants[i]
		if g.hold > w.time && !g.dropped && !w.stands(w.doc, g, w.now()) {
			w.fail("kept", "the grant of %d with fence %d holds others out until %d, and no entry does", g.ID, g.Fence, g.hold)
		}
	}
	for tag, e := range w.doc.All() {
		g := w.entryOf(tag, e)
		switch {
		case e.ID > 0 && !g.released:
		case e.Key != 0:
			w.fail("kept", "entry %d is left after a release, and can be resumed", e.ID)
		case e.Expires > g.limit:
			w.fail("kept", "entry %d holds others out until %d, longer than %d", e.ID, e.Expires, g.limit)
		}
	}
}
