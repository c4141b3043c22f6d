package model

import "testing"

// Directed traces, for states that the searches don't reach.

// hand is a document under a protocol, with a clock that the test sets.
type hand struct {
	t   *testing.T
	p   Protocol
	d   *Document
	now int64
}

func newHand(t *testing.T) *hand { return &hand{t, Protocol{}, &Document{}, 1000} }

// ask is a request with the usual terms: TTL 20, waiting 10, tolerance 5.
func ask(rules Rules, tag Tag, id ID) Request {
	return Request{Rules: rules, Tag: tag, ID: id, Owner: "someone", TTL: 20, WaitTTL: 10, Tolerance: 5}
}

// does takes what a command has returned, and checks its outcome.
func (h *hand) does(want Outcome) func(*Document, Outcome, *Document) {
	return func(d *Document, outcome Outcome, _ *Document) {
		h.t.Helper()
		if outcome != want {
			h.t.Fatalf("outcome %s, want %s; %v", outcome, want, d)
		}
		h.d = d
	}
}

// acquire acquires a lease and checks that it is granted.
func (h *hand) acquire(rules Rules, tag Tag, id ID) Lease {
	h.t.Helper()
	h.does(Granted)(h.p.Acquire(h.d, ask(rules, tag, id), Queue, h.now))
	e, _ := h.d.Find(tag, id)
	return Lease{tag, id, e.Fence}
}

// Two holders of one process share an entry, and one of them detaches it. The
// user of the token releases it, and a writer is let in beside the other holder,
// whose lease is still valid. So a shared entry is not detached. The same holds
// for a conversion, which ends the other holders' tag.
func TestRule23SharedEntriesAreNotDetached(t *testing.T) {
	rules := Rules{"read": {"write": {Cooperative, 0}}, "write": {"read": {Cooperative, 0}, "write": {Cooperative, 0}}, "look": {}}
	for _, how := range []string{"detach", "convert", "neither"} {
		h := newHand(t)
		shared, valid := h.acquire(rules, "read", 1), h.now+20
		switch how {
		case "detach":
			h.does(Detached)(h.p.Detach(h.d, shared, 7, 20, 5, h.now))
			h.does(Granted)(h.p.Resume(h.d, Token{"read", 7}, ask(rules, "read", 2), true, h.now))
			h.does(Released)(h.p.Release(h.d, Lease{"read", 2, h.d.Lock.Fence}, h.now))
		case "convert":
			h.does(Granted)(h.p.Convert(h.d, shared, 1, ask(rules, "look", 2), h.now))
		}
		h.now++
		_, outcome, _ := h.p.Acquire(h.d, ask(rules, "write", 3), Queue, h.now)
		if beside := outcome == Granted && h.now < valid; beside != (how != "neither") {
			t.Errorf("%s: the writer is %s at %d, the other reader is valid until %d", how, outcome, h.now, valid)
		}
	}
}

// An outside writer has put another entry before the lease's. The compare-and-set names the
// tag's first entry, and does nothing.
func TestRule17SetDemandsTheFirstEntry(t *testing.T) {
	h := newHand(t)
	lease := h.acquire(exclusive, "a", 1)
	own := h.d.Lock.Tags[0].Entries
	for _, want := range []Outcome{Granted, NotApplied} {
		d, outcome, _ := h.p.CompareAndSet(h.d, lease, 77, ask(exclusive, "a", 2), lease.Fence, h.now)
		if outcome != want {
			t.Errorf("%s, want %s: %v", outcome, want, d)
		}
		h.d.Lock.Tags[0].Entries = append([]Entry{{ID: 3, Seq: 3, Fence: 3, Expires: 900}}, own...)
	}
}
