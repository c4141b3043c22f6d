package model

import (
	"cmp"
	"slices"
)

// fail records the first violation that counts.
func (w *world) fail(property, format string, args ...any) {
	if w.cfg.counts == nil || w.cfg.counts(property) {
		w.broken.Fail(property, format, args...)
	}
}

// check checks one executed command. The properties are:
//
//   - frame: a command changes no entry but its own, except that it may drop
//     expired ones; a release removes only its own. shortened: none ends earlier.
//   - fences: every grant raises lock.fence, and its fencing token is above
//     all others.
//   - exclusion: at a grant, the present entries are tolerated (see granted).
//   - presence: a guarded command that succeeds follows no conflicting grant.
//   - once: no update is applied twice, nor after its client was told that it
//     was not applied; and one that may be applied is.
//   - last: a guarded command that succeeds is the last handle's, and no other
//     handle ends the lock of a token's users.
//   - token: a token resumes what was detached, and nothing else.
//   - extended: an answered detach leaves the token a whole TTL.
//   - convert: a refused one leaves the lease's entry. kept back: see checkKeptBack.
//     taken: see checkTaken.
//   - kept: see checkHold.
//   - words: see saysLost, saysEnded and saysMissing.
//   - validity: see checkValidity. honoured: a valid lease has a live entry.
//   - queue: see checkQueue. leak: an id that nobody uses is not present.
func (w *world) check(ev event) {
	if w.cfg.outside != erases {
		w.checkFrame(ev)
		w.checkRefused(ev)
		w.checkKeptBack(ev)
		w.checkGuard(ev)
	}
	w.checkTaken(ev)
	w.checkApplied(ev)
	w.checkGrants(ev)
	w.checkDetached(ev)
	w.checkReleased(ev)
}

func (w *world) checkFrame(ev event) {
	if ev.before == ev.after {
		return
	}
	token, _ := ev.before.Keyed(Token{ev.lease.Tag, ev.key})
	own := func(id ID) bool {
		return id == ev.lease.ID || id != 0 && (id == ev.second || id == ev.next.ID || id == token.ID) || id == leftBy(ev.lease.ID)
	}
	for tag, e := range ev.before.All() {
		after, there := ev.after.Find(tag, e.ID)
		switch {
		case !there && !own(e.ID) && e.Live(ev.now) && !ev.takes(tag, e) && (e.Held() || ev.op != opDelete):
			w.fail("frame", "%v removed the live entry %d", ev.op, e.ID)
		case !there && ev.handsOver() && e.ID == ev.second:
			w.fail("frame", "%v removed the successor's entry %d: it loses its place", ev.op, e.ID)
		case there && !own(e.ID) && after != e:
			w.fail("frame", "%v changed entry %d", ev.op, e.ID)
		case there && after.Expires < e.Expires:
			w.fail("shortened", "%v shortened entry %d", ev.op, e.ID)
		}
	}
	for tag, e := range ev.after.All() {
		_, there := ev.before.Find(tag, e.ID)
		switch {
		case !there && !own(e.ID):
			w.fail("frame", "%v made entry %d", ev.op, e.ID)
		case !there && ev.handsOver() && !e.Held():
			w.fail("frame", "%v left the successor's entry %d, which it did not grant", ev.op, e.ID)
		}
	}
}

// checkGrants looks for entries that were not held with that fence before.
func (w *world) checkGrants(ev event) {
	if ev.before == ev.after {
		return
	}
	for tag, e := range ev.after.All() {
		before, there := ev.before.Find(tag, e.ID)
		if !e.Held() || there && before.Fence == e.Fence || e.ID == leftBy(ev.lease.ID) {
			continue
		}
		if w.cfg.outside != erases {
			if e.Fence <= w.ghost.top || e.Fence != ev.after.Lock.Fence {
				w.fail("fences", "%v gave fence %d after %d", ev.op, e.Fence, w.ghost.top)
			}
			if ev.op == opResume {
				w.checkResumed(ev)
			} else {
				w.granted(ev, tag, e, there)
			}
		}
		w.ghost.top = max(w.ghost.top, e.Fence)
		w.ghost.grants = append(w.ghost.grants, w.newGrant(ev, Lease{tag, e.ID, e.Fence}))
	}
}

// granted checks the grant of e against the entries just before it. A new
// arrival tolerates a number of live entries, held or waiting; a waiting entry
// tolerates a number that are held or earlier, and a conversion a number that are held. Leases that don't count at this
// moment, and that the new holder respects, are excluded from now on.
func (w *world) granted(ev event, tag Tag, e Entry, waited bool) {
	rules := w.cfg.rules(owner(e.ID))
	passes := ev.op == opConvert
	for t, o := range ev.before.All() {
		passes = passes || ev.takes(t, o) && o.Held() && o.Live(ev.now)
	}
	t, n := inTheWay(rules, tag, ev.before, func(t Tag, o Entry) bool {
		counts := o.Held() || !passes && (!waited || o.Seq < e.Seq)
		return counts && o.ID != e.ID && o.ID != ev.lease.ID && o.Live(ev.now) && !ev.takes(t, o)
	})
	if n > 0 {
		w.fail("exclusion", "%v let in %d of tag %s beside %d of tag %s", ev.op, e.ID, tag, n, t)
	}
	for i := range w.ghost.grants {
		g := &w.ghost.grants[i]
		if _, respects := rules.limit(tag, g.Tag); !respects || g.excluded {
			continue
		}
		if !w.stands(ev.before, g, ev.now) || g.broken {
			g.excluded = true
		}
	}
}

// inTheWay is a tag of which too many of the entries that count are in the way of the tag, and how many, or 0.
func inTheWay(rules Rules, tag Tag, d *Document, counts func(Tag, Entry) bool) (other Tag, n int) {
	all := map[Tag]int{}
	for t, o := range d.All() {
		if counts(t, o) {
			all[t]++
		}
	}
	for t, n := range all {
		if allow, respects := rules.limit(tag, t); respects && n > allow {
			return t, n
		}
	}
	return "", 0
}

// checkKeptBack checks that waiting entries refuse no conversion, and no take-over of a live held entry.
func (w *world) checkKeptBack(ev event) {
	from, tag := ev.lease, ev.next.Tag
	if ev.op == opTakeOver {
		from, tag = ev.taken, ev.lease.Tag
	}
	own, there := ev.before.guarded(from, false)
	if tag == "" || ev.outcome != Conflict || !there || ev.op == opTakeOver && !own.Live(ev.now) || ev.op == opConvert && (own.N >= ev.k || own.Until > ev.now) {
		return
	}
	held := func(_ Tag, o Entry) bool { return o.Held() && o.Live(ev.now) && o.ID != own.ID }
	if _, n := inTheWay(w.cfg.rules(int(ev.from)), tag, ev.before, held); n == 0 {
		w.fail("kept back", "%v of %d was refused by waiting entries", ev.op, own.ID)
	}
}

// checkTaken checks that a take-over ends something only if it is granted, and not after its client was told that it had
// ended nothing. It records whose lease it has ended.
func (w *world) checkTaken(ev event) {
	if ev.op != opTakeOver || Same(ev.before, ev.after) {
		return
	}
	if ev.outcome != Granted {
		w.fail("taken", "%v of %d is not granted, and has changed the lock", ev.op, ev.taken.ID)
	}
	for tag, e := range ev.before.All() {
		if _, stays := ev.after.Find(tag, e.ID); stays || !ev.takes(tag, e) || !e.Live(ev.now) {
			continue
		}
		w.ends(tag, e)
		if slices.Contains(w.ghost.spared, ev.lease.ID) {
			w.fail("taken", "%v ends entry %d after its client was told that it had not", ev.op, e.ID)
		}
	}
}

// checkGuard uses presence: a guarded command that succeeds proves that no
// holder was let in that the lease excludes.
func (w *world) checkGuard(ev event) {
	switch ev.outcome {
	case Applied, Released, Detached:
	default:
		_, repeat := ev.before.Find(ev.next.Tag, ev.next.ID)
		lowers := ev.op == opConvert && ev.outcome == Granted && !repeat
		if !lowers && !ev.handsOver() || ev.outcome == NotApplied {
			return
		}
	}
	if ev.lease.Fence == 0 {
		return
	}
	for i, g := range w.ghost.grants {
		if g.Lease != ev.lease {
			continue
		}
		if g.excluded {
			w.fail("presence", "%v succeeded for %d with fence %d after a conflicting grant", ev.op, g.ID, g.Fence)
		}
		later := func(o grant) bool { return o.line == g.line && o.Fence > g.Fence }
		if slices.ContainsFunc(w.ghost.grants[i:], later) {
			w.fail("last", "%v succeeded for %d with fence %d after a later resume", ev.op, g.ID, g.Fence)
		}
	}
}

// checkApplied checks that every update is applied at most once, and not after
// its client was told that it wasn't.
func (w *world) checkApplied(ev event) {
	if ev.u == 0 || ev.after == nil || ev.before == nil || len(ev.after.Log) == len(ev.before.Log) {
		return
	}
	if w.cfg.outside != erases {
		if slices.Contains(w.ghost.applied, ev.u) {
			w.fail("once", "update %d was applied twice", ev.u)
		}
		if slices.Contains(w.ghost.denied, ev.u) {
			w.fail("once", "update %d was applied after the verdict that it was not", ev.u)
		}
	}
	w.ghost.applied = append(w.ghost.applied, ev.u)
}

// checkRefused checks that a guarded write with the right fence and an unused
// number is applied.
func (w *world) checkRefused(ev event) {
	if ev.outcome != NotApplied || ev.op == opSet || ev.op == opDelete { // which may wait for a time
		return
	}
	if _, there := ev.before.guarded(ev.lease, false); there && !slices.Contains(w.ghost.applied, ev.u) {
		w.fail("once", "update %d was refused though its entry is present", ev.u)
	}
}

// verdict compares a client's conclusion about its update with the truth.
func (w *world) verdict(u Update, applied bool) {
	truth := slices.Contains(w.ghost.applied, u)
	if applied && !truth {
		w.fail("once", "verdict applied, but update %d was not", u)
	}
	if !applied && truth {
		w.fail("once", "verdict not applied, but update %d was", u)
	}
	if !applied && !slices.Contains(w.ghost.denied, u) {
		w.ghost.denied = append(w.ghost.denied, u)
	}
}

// checkState checks the state between two steps.
func (w *world) checkState() {
	if w.ghost.erased {
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
// excluded lease is valid. One that an operator has broken does not count. The users of one token count as one: the leases of
// several of them may be valid, and only the last one's guard matches.
func (w *world) checkValidity() {
	for i := range w.clients {
		c := &w.clients[i]
		if !c.validAt(w.time) {
			continue
		}
		lease := Lease{c.tag, c.id, c.fence}
		own := w.grantOf(lease)
		if own.broken {
			continue
		}
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
		g := w.grantOf(Lease{o.tag, o.id, o.fence})
		if line := g.line; line < than.line && !lines[line] && !g.broken {
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

// The properties of tokens, conversions and HoldAtLeast. A line is an acquire
// with all the resumes that come from it. Its present entry stands for all its
// handles: it keeps others out for each of them.

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
	case opSet, opConvert:
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

func (w *world) checkDetached(ev event) {
	if ev.outcome != Detached {
		return
	}
	w.grantOf(ev.lease).detached = true
	if e, _ := ev.after.Find(ev.lease.Tag, ev.lease.ID); e.Expires < ev.now+w.cfg.ttl+w.cfg.tolerance {
		w.fail("extended", "%v left entry %d, which expires at %d", ev.op, e.ID, e.Expires)
	}
}

// checkReleased checks that a release leaves what a later resume has. It records that a command released the entry of a
// grant, and whether its client never heard of the grant: the entry is then just removed.
func (w *world) checkReleased(ev event) {
	if !ev.op.releases() || ev.before == ev.after {
		return
	}
	e, _ := ev.before.Find(ev.lease.Tag, ev.lease.ID)
	if ev.op == opRelease && e.Key != 0 && e.Fence != ev.lease.Fence {
		w.fail("last", "the release of %d with fence %d ended the lock of a later resume", ev.lease.ID, ev.lease.Fence)
	}
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
