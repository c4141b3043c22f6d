package model

import (
	"slices"
	"testing"
)

// Directed traces, for states that the searches don't reach.

// hand is a document under a protocol, with a clock that the test sets.
type hand struct {
	t   *testing.T
	p   Protocol
	d   *Document
	now int64
}

func newHand(t *testing.T, without Without) *hand {
	return &hand{t, Protocol{without}, &Document{}, 1000}
}

// ask is a request with the usual terms: TTL 20, waiting 10, tolerance 5.
func ask(rules Rules, tag Tag, id ID) Request {
	return Request{Rules: rules, Tag: tag, ID: id, Owner: "someone", TTL: 20, WaitTTL: 10, Tolerance: 5}
}

// acquire acquires an exclusive lease and checks that it is granted.
func (h *hand) acquire(id ID) (Lease, Image) {
	h.t.Helper()
	d, outcome, image := h.p.Acquire(h.d, ask(exclusive, "a", id), Queue, h.now)
	if outcome != Granted {
		h.t.Fatalf("acquire %d: %s", id, outcome)
	}
	h.d = d
	e, _ := d.Find("a", id)
	return Lease{"a", id, e.Fence}, image
}

// does runs a command and checks its outcome.
func (h *hand) does(want Outcome, d *Document, outcome Outcome, _ Image) {
	h.t.Helper()
	if outcome != want {
		h.t.Fatalf("outcome %s, want %s; %v", outcome, want, d)
	}
	h.d = d
}

// ended begins a lease and ends it with a write.
func (h *hand) ended(id ID) {
	h.t.Helper()
	lease, _ := h.acquire(id)
	d, outcome, image := h.p.WriteAndRelease(h.d, lease, Update(id), h.now)
	h.does(Applied, d, outcome, image)
}

// Nine writes later, the first one is repeated.
func TestRule14NumberIsInTheEntry(t *testing.T) {
	for _, without := range []Without{{}, {NumberInEntry: true}} {
		h := newHand(t, without)
		lease, _ := h.acquire(1)
		for k := 1; k <= 9; k++ {
			d, outcome, image := h.p.Write(h.d, lease, k, Update(k), h.now)
			h.does(Applied, d, outcome, image)
		}
		_, outcome, _ := h.p.Write(h.d, lease, 1, 1, h.now) // the late one
		if want := without.NumberInEntry; (outcome == Applied) != want {
			t.Errorf("number in the entry: %v; the late write is %s", !without.NumberInEntry, outcome)
		}
	}
}

// The lease ended with a write of unknown outcome, and eight others came after:
// done has dropped its id. Only the witness distinguishes absence from "not
// applied".
func TestRule18NineLeasesLater(t *testing.T) {
	for _, earlier := range []bool{false, true} {
		h := newHand(t, Without{})
		if earlier {
			h.ended(50)
		}
		lease, image := h.acquire(1)
		d, outcome, im := h.p.WriteAndRelease(h.d, lease, 1, h.now) // the answer is lost
		h.does(Applied, d, outcome, im)
		for id := ID(2); id < 10; id++ {
			h.ended(id)
		}
		if slices.Contains(h.d.Lock.Done, 1) {
			t.Fatal("done still has it")
		}
		w := newWorld(&config{tags: []Tag{"a"}, tick: 1})
		c := &client{fence: lease.Fence}
		if done := image.Doc.Lock.Done; len(done) > 0 {
			c.newest = done[len(done)-1]
		}
		if w.provesAbsence(c, h.d) {
			t.Errorf("newest at the grant %d: absence from done %v counts as a proof", c.newest, h.d.Lock.Done)
		}
		w.cfg.protocol.Without.DoneNeedsWitness = true
		if !w.provesAbsence(c, h.d) {
			t.Error("without the rule the verdict is the same")
		}
	}
}

// A successor gives up, and the entry that it may have been handed is released
// by the id alone. That release comes late, and finds the id used again.
func TestRule19IDsAreNeverReused(t *testing.T) {
	for _, second := range []ID{2, 3} { // the successor's id once more, or a new one
		h := newHand(t, Without{})
		first, _ := h.acquire(1)
		d, outcome, image := h.p.Handoff(h.d, first, Successor{Request: ask(exclusive, "a", 2)}, h.now) // the answer is lost
		h.does(Granted, d, outcome, image)
		d, outcome, image = h.p.Release(h.d, Lease{Tag: "a", ID: 2}, h.now)
		h.does(Released, d, outcome, image)
		h.acquire(second)
		d, _, _ = h.p.Release(h.d, Lease{Tag: "a", ID: 2}, h.now) // the late one
		if _, there := d.Find("a", second); there != (second != 2) {
			t.Errorf("acquired as %d: after the late release: %v", second, d)
		}
	}
}

// The holder's plain release comes first. The late handoff then finds nothing,
// so no release of the successor's id is needed.
// The id of a lease that ended with a write is in done. A second lease with
// that id would find its own write "applied" before it was.
// A batched renewal skips a document whose lease was lost, although its id is
// present again.
// An acquire that executes after its caller gave up delays others until TTL and
// tolerance are over, and never longer.
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
// A resume finds an entry that has expired, while it is present. A grant removes
// it, and its token is worth nothing from then on.
// The reply of a detach is lost. Until a resume, a repeat finds the same entry.
// After it, the repeat finds nothing, and changes nothing.
// The handle's own write of unknown outcome is executed after its detach: at
// most once, and not after a resume.
// A late acquire brings the id of a released lease back. Nobody held that one,
// so its removal leaves nothing.
// Two tabs save, and both number their write 1. The second tab's command gets
// lost. If both were one handle, its repeat would find nothing, and the number
// in the entry would say that the write was applied.

// An outside writer has put another entry before the lease's. The compare-and-set names the
// tag's first entry, and does nothing.
func TestRule17SetDemandsTheFirstEntry(t *testing.T) {
	h := newHand(t, Without{})
	lease, _ := h.acquire(1)
	own := h.d.Lock.Tags[0].Entries
	for _, want := range []Outcome{Granted, NotApplied} {
		d, outcome, _ := h.p.CompareAndSet(h.d, lease, 77, ask(exclusive, "a", 2), lease.Fence, h.now)
		if outcome != want {
			t.Errorf("%s, want %s: %v", outcome, want, d)
		}
		h.d.Lock.Tags[0].Entries = append([]Entry{{ID: 3, Seq: 3, Fence: 3, Expires: 900}}, own...)
	}
}
