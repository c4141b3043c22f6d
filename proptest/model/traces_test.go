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
		d, outcome, image := h.p.Handoff(h.d, first, successor(exclusive, 2), h.now) // the answer is lost
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
func TestRule15LateHandoffFindsNothing(t *testing.T) {
	h := newHand(t, Without{})
	first, _ := h.acquire(1)
	d, outcome, image := h.p.Release(h.d, first, h.now)
	h.does(Released, d, outcome, image)
	d, outcome, image = h.p.Handoff(h.d, first, successor(exclusive, 2), h.now)
	h.does(NotApplied, d, outcome, image)
	h.acquire(1) // a late duplicate brings the id back
	d, outcome, image = h.p.Handoff(h.d, first, successor(exclusive, 2), h.now+1)
	if first.Fence == h.d.Lock.Fence {
		t.Fatal("the trace shows nothing")
	}
	h.does(NotApplied, d, outcome, image)
}

// The id of a lease that ended with a write is in done. A second lease with
// that id would find its own write "applied" before it was.
func TestRule19DoneKnowsTheID(t *testing.T) {
	h := newHand(t, Without{})
	h.ended(1)
	h.acquire(1)
	if !finished(h.d, 1) {
		t.Error("the trace shows nothing")
	}
}

// A batched renewal skips a document whose lease was lost, although its id is
// present again.
func TestRule20BatchedRenewal(t *testing.T) {
	h := newHand(t, Without{})
	kept, _ := h.acquire(1)
	keptDoc := h.d

	h.d = &Document{}
	lost, _ := h.acquire(2)
	h.now += 30
	h.ended(3)
	h.acquire(2) // a late duplicate of the first acquire
	lostDoc := h.d

	keptDoc, _, _ = h.p.Renew(keptDoc, kept, 20, 5, h.now)
	docs, matched := h.p.RenewBatch([]Renewal{{keptDoc, kept, 20, 5}, {lostDoc, lost, 20, 5}}, h.now)
	if matched != 1 {
		t.Fatalf("%d matched", matched)
	}
	_, _, image := h.p.Read(docs[0], h.now)
	if got := image.Remaining(kept, 20, 5); got != 20 {
		t.Errorf("the renewed lease remains for %d more", got)
	}
	_, _, image = h.p.Read(docs[1], h.now)
	if got := image.Remaining(lost, 20, 5); got != 0 {
		t.Errorf("the lost lease remains for %d", got)
	}
}

// An acquire that executes after its caller gave up delays others until TTL and
// tolerance are over, and never longer.
func TestRule22OrphanDelaysOnly(t *testing.T) {
	h := newHand(t, Without{})
	d, outcome, image := h.p.Release(h.d, Lease{Tag: "a", ID: 1}, h.now) // the clean-up comes first
	h.does(Lost, d, outcome, image)
	h.acquire(1)
	h.now += 24
	d, outcome, image = h.p.Acquire(h.d, ask(exclusive, "a", 2), Queue, h.now)
	h.does(Conflict, d, outcome, image)
	h.now++
	h.acquire(2)
	if len(h.d.Entries("a")) != 1 {
		t.Errorf("the orphan is still there: %v", h.d)
	}
}
