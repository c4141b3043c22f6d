package model

import "testing"

// Directed traces for rules 23 to 25, for what the searches don't reach: shared
// entries, clean-ups in the background, and the fate of late duplicates.

// detached is a lease that was acquired under id 1 and detached under key 7.
func detached(h *hand) (Lease, Token) {
	h.t.Helper()
	lease, _ := h.acquire(1)
	d, outcome, image := h.p.Detach(h.d, lease, 7, 20, 5, h.now)
	h.does(Detached, d, outcome, image)
	return lease, Token{"a", 7}
}

// resume resumes the token under the id.
func (h *hand) resume(k Token, id ID) Lease {
	h.t.Helper()
	d, outcome, image := h.p.Resume(h.d, k, ask(exclusive, k.Tag, id), h.now)
	h.does(Granted, d, outcome, image)
	e, _ := d.keyed(k)
	return Lease{k.Tag, e.ID, e.Fence}
}

// write writes under the lease, and returns the outcome.
func (h *hand) write(l Lease, k int, u Update) Outcome {
	d, outcome, _ := h.p.Write(h.d, l, k, u, h.now)
	h.d = d
	return outcome
}

// Two holders of one process share an entry, and one of them detaches it. The
// user of the token releases it, and a writer is let in beside the other holder,
// whose lease is still valid. So a shared entry is not detached. The same holds
// for a downgrade, which ends the other holders' tag.
func TestRule23SharedEntriesAreNotDetached(t *testing.T) {
	rules := Rules{"read": {"write": {Cooperative, 0}}, "write": {"read": {Cooperative, 0}, "write": {Cooperative, 0}}, "look": {}}
	for _, how := range []string{"detach", "downgrade", "neither"} {
		h := newHand(t, Without{})
		d, outcome, image := h.p.Acquire(h.d, ask(rules, "read", 1), Queue, h.now)
		h.does(Granted, d, outcome, image)
		e, _ := h.d.Find("read", 1)
		shared, valid := Lease{"read", 1, e.Fence}, h.now+20
		switch how {
		case "detach":
			d, outcome, image = h.p.Detach(h.d, shared, 7, 20, 5, h.now)
			h.does(Detached, d, outcome, image)
			mine := h.resume(Token{"read", 7}, 2)
			d, outcome, image = h.p.Release(h.d, mine, h.now)
			h.does(Released, d, outcome, image)
		case "downgrade":
			d, outcome, image = h.p.Downgrade(h.d, shared, 1, ask(rules, "look", 2), h.now)
			h.does(Granted, d, outcome, image)
		}
		h.now++
		_, outcome, _ = h.p.Acquire(h.d, ask(rules, "write", 3), Queue, h.now)
		if beside := outcome == Granted && h.now < valid; beside != (how != "neither") {
			t.Errorf("%s: the writer is %s at %d, the other reader is valid until %d", how, outcome, h.now, valid)
		}
	}
}

// An acquire had an attempt of unknown outcome, so its id is cleaned up when the
// handle has ended. The entry is the token's by then.
func TestRule23CleanUpSparesTokens(t *testing.T) {
	for _, without := range []Without{{}, {KeyNeedsFence: true}} {
		h := newHand(t, without)
		_, token := detached(h)
		h.d, _, _ = h.p.Release(h.d, Lease{Tag: "a", ID: 1}, h.now) // the clean-up
		_, outcome, _ := h.p.Resume(h.d, token, ask(exclusive, "a", 2), h.now)
		if want := without.KeyNeedsFence; (outcome == Lost) != want {
			t.Errorf("key needs fence: %v; the resume after the clean-up is %s", !without.KeyNeedsFence, outcome)
		}
	}
}

// A late duplicate of a resume takes the lock from a later one. Both handles
// notice, nobody else is let in before the time of either is over, and the token
// stays good.
func TestRule23LateResume(t *testing.T) {
	h := newHand(t, Without{})
	_, token := detached(h)
	first := h.resume(token, 2)
	second := h.resume(token, 3)
	if outcome := h.write(second, 1, 31); outcome != Applied {
		t.Fatalf("the later handle's write: %s", outcome)
	}
	late := h.resume(token, 2) // of the first
	if late == first {
		t.Fatal("the late resume brought the first handle back")
	}
	for _, l := range []Lease{first, second} {
		if outcome := h.write(l, 2, 99); outcome != NotApplied {
			t.Errorf("the write of %v: %s", l, outcome)
		}
		if _, outcome, _ := h.p.Renew(h.d, l, 20, 5, h.now); outcome != Lost {
			t.Errorf("the renewal of %v: %s", l, outcome)
		}
		d, outcome, _ := h.p.Release(h.d, l, h.now)
		if outcome != Lost || d != h.d {
			t.Errorf("the release of %v: %s, %v", l, outcome, d)
		}
	}
	third := h.resume(token, 4)
	if outcome := h.write(third, 1, 41); outcome != Applied {
		t.Errorf("the next handle's write: %s", outcome)
	}
	d, outcome, image := h.p.Release(h.d, third, h.now)
	h.does(Released, d, outcome, image)
	_, outcome, _ = h.p.Acquire(h.d, ask(exclusive, "a", 5), Queue, h.now+24)
	if outcome != Conflict {
		t.Errorf("%s while an earlier handle's lease is valid", outcome)
	}
	if d, outcome, _ := h.p.Resume(h.d, token, ask(exclusive, "a", 2), h.now); outcome != Lost || d != h.d {
		t.Errorf("a late resume after the release: %s, %v", outcome, d)
	}
	h.now += 25
	h.acquire(6)
}

// A resume finds an entry that has expired, while it is present. A grant removes
// it, and its token is worth nothing from then on.
func TestRule23ResumeGoesByPresence(t *testing.T) {
	h := newHand(t, Without{})
	_, token := detached(h)
	h.now += 1000
	mine := h.resume(token, 2)
	if outcome := h.write(mine, 1, 21); outcome != Applied {
		t.Errorf("the write after it: %s", outcome)
	}
	h.now += 1000
	h.acquire(3)
	if _, outcome, _ := h.p.Resume(h.d, token, ask(exclusive, "a", 4), h.now); outcome != Lost {
		t.Errorf("after another's grant: %s", outcome)
	}
	if outcome := h.write(mine, 2, 22); outcome != NotApplied {
		t.Errorf("the guarded write after another's grant: %s", outcome)
	}
}

// The reply of a detach is lost. Until a resume, a repeat finds the same entry.
// After it, the repeat finds nothing, and changes nothing.
func TestRule23DetachRepeated(t *testing.T) {
	h := newHand(t, Without{})
	lease, token := detached(h)
	d, outcome, image := h.p.Detach(h.d, lease, 7, 20, 5, h.now)
	h.does(Detached, d, outcome, image)
	mine := h.resume(token, 2)
	d, outcome, image = h.p.Detach(h.d, lease, 7, 20, 5, h.now)
	h.does(Lost, d, outcome, image)
	if outcome := h.write(mine, 1, 21); outcome != Applied {
		t.Errorf("the new handle's write: %s", outcome)
	}
}

// The handle's own write of unknown outcome is executed after its detach: at
// most once, and not after a resume.
func TestRule23LateWriteAfterDetach(t *testing.T) {
	h := newHand(t, Without{})
	lease, token := detached(h)
	for _, want := range []Outcome{Applied, NotApplied} {
		if outcome := h.write(lease, 1, 11); outcome != want {
			t.Errorf("the late write: %s, want %s", outcome, want)
		}
	}
	h.resume(token, 2)
	if outcome := h.write(lease, 2, 12); outcome != NotApplied {
		t.Errorf("the late write after a resume: %s", outcome)
	}
}

// A late acquire brings the id of a released lease back. Nobody held that one,
// so its removal leaves nothing.
func TestRule25OrphansAreJustRemoved(t *testing.T) {
	h := newHand(t, Without{})
	r := ask(exclusive, "a", 1)
	r.Hold = 100
	for i := range 2 {
		d, outcome, image := h.p.Acquire(h.d, r, Queue, h.now) // the second is late
		h.does(Granted, d, outcome, image)
		e, _ := h.d.Find("a", 1)
		if want := h.now + 105; e.Until != want || e.Expires != want {
			t.Fatalf("until %d, expires %d, want %d", e.Until, e.Expires, want)
		}
		l := Lease{"a", 1, e.Fence - int64(i)}
		want := []Outcome{Released, Lost}[i]
		d, outcome, image = h.p.Release(h.d, l, h.now)
		h.does(want, d, outcome, image)
		if n := len(h.d.Entries("a")); n != 1-i {
			t.Errorf("%s: %d entries are left", want, n)
		}
		h.now += 200
	}
}

// Two tabs save, and both number their write 1. The second tab's command gets
// lost. If both were one handle, its repeat would find nothing, and the number
// in the entry would say that the write was applied.
func TestRule23TwoTabs(t *testing.T) {
	for _, without := range []Without{{}, {NewIDAtResume: true, NewFenceAtResume: true, ResumeUnsetsNumber: true}} {
		h := newHand(t, without)
		_, token := detached(h)
		first := h.resume(token, 2)
		second := h.resume(token, 3)
		verdict := func(l Lease, u Update) (said, is bool) {
			outcome := h.write(l, 1, u)
			e, there := h.d.guarded(l, false)
			return outcome == Applied || there && e.N >= 1, len(h.d.Log) > 0 && h.d.Log[len(h.d.Log)-1] == u
		}
		verdict(first, 21)
		said, is := verdict(second, 31)
		if one := without.NewIDAtResume; said != true || is == one {
			t.Errorf("one handle: %v; the second tab's write counts as applied: %v, is applied: %v", one, said, is)
		}
	}
}
