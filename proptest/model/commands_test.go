package model

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

// held and waits make entries as ask makes them.
func held(id ID, seq, fence, since, expires int64) Entry {
	return Entry{ID: id, Owner: "someone", Seq: seq, Fence: fence, Since: since, Expires: expires}
}

func waits(id ID, seq, since, expires int64) Entry { return held(id, seq, 0, since, expires) }

// locked is a document with the given lock.
func locked(fence int64, done []ID, buckets ...Bucket) *Document {
	return &Document{Field: Ours, Lock: Lock{Fence: fence, Tags: buckets, Done: done}}
}

func under(tag Tag, entries ...Entry) Bucket { return Bucket{tag, entries} }

func logged(u Update, d *Document) *Document {
	d.Log = []Update{u}
	return d
}

// successor and waiter are clients that take over a lease of tag a.
func successor(t Rules, id ID) Successor { return Successor{Request: ask(t, "a", id)} }
func waiter(t Rules, id ID) Successor    { return Successor{Request: ask(t, "a", id), Waiting: true} }

// TestCommandsInDetail checks what each command leaves in the document, in the
// protocol's words.
func TestCommandsInDetail(t *testing.T) {
	var p Protocol
	two := Rules{"a": {"a": {Assertive, 0}}, "b": {}}
	dead := held(9, 1, 1, 0, 100)
	inDetail(t, []detail{
		{
			"the first acquire takes the time for its fence", &Document{},
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, ask(two, "a", 1), Queue, 1000) },
			Granted, locked(1000, nil, under("a", held(1, 1000, 1000, 1000, 1025))),
		},
		{
			"null counts as absent", &Document{Field: Null},
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, ask(two, "a", 1), Queue, 1000) },
			Granted, locked(1000, nil, under("a", held(1, 1000, 1000, 1000, 1025))),
		},
		{
			"a foreign lock is left untouched", &Document{Field: Foreign},
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, ask(two, "a", 1), Queue, 1000) },
			ForeignLock, &Document{Field: Foreign},
		},
		{
			"no document", nil,
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, ask(two, "a", 1), Queue, 1000) },
			NotFound, nil,
		},
		{
			"a grant prunes all tags, drops emptied ones, and keeps done", locked(2000, []ID{7}, under("a", dead), under("b")),
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, ask(two, "b", 1), Queue, 1000) },
			Granted, locked(2001, []ID{7}, under("b", held(1, 2001, 2001, 1000, 1025))),
		},
		{
			"a join raises the fence, prunes, and goes to the end", locked(5, nil, under("a", held(2, 3, 3, 0, 1001)), under("b", dead)),
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, ask(two, "a", 1), Queue, 1000) },
			Waits, locked(1000, nil, under("a", held(2, 3, 3, 0, 1001), waits(1, 1000, 1000, 1015))),
		},
		{
			"a conflict writes nothing", locked(5, nil, under("a", held(2, 3, 3, 0, 1001)), under("b", dead)),
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, ask(two, "a", 1), Try, 1000) },
			Conflict, locked(5, nil, under("a", held(2, 3, 3, 0, 1001)), under("b", dead)),
		},
		{
			"a repeat extends in place, even what has expired, and prunes nothing", locked(5, nil, under("a", dead, waits(8, 2, 0, 100))),
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, ask(two, "a", 9), Queue, 1000) },
			Granted, locked(5, nil, under("a", held(9, 1, 1, 0, 1025), waits(8, 2, 0, 100))),
		},
		{
			"a confirm that stays blocked extends, and prunes nothing", locked(5, nil, under("a", held(2, 3, 3, 0, 1001), waits(1, 4, 0, 1002)), under("b")),
			func(d *Document) (*Document, Outcome, Image) { return p.Confirm(d, ask(two, "a", 1), 1000) },
			Waits, locked(5, nil, under("a", held(2, 3, 3, 0, 1001), waits(1, 4, 0, 1015)), under("b")),
		},
		{
			"a confirm that grants prunes all but its own", locked(5, nil, under("a", dead, waits(1, 4, 0, 900)), under("b")),
			func(d *Document) (*Document, Outcome, Image) { return p.Confirm(d, ask(two, "a", 1), 1000) },
			Granted, locked(1000, nil, under("a", held(1, 4, 1000, 0, 1025))),
		},
		{
			"a renewal never shortens", locked(5, nil, under("a", held(1, 4, 4, 0, 3000))),
			func(d *Document) (*Document, Outcome, Image) { return p.Renew(d, Lease{"a", 1, 4}, 20, 5, 1000) },
			Renewed, locked(5, nil, under("a", held(1, 4, 4, 0, 3000))),
		},
		{
			"a release leaves the empty array", locked(5, nil, under("a", held(1, 4, 4, 0, 3000)), under("b", dead)),
			func(d *Document) (*Document, Outcome, Image) { return p.Release(d, Lease{"a", 1, 4}, 1000) },
			Released, locked(5, nil, under("a", []Entry{}...), under("b", dead)),
		},
		{
			"a release with another fence removes, and says lost", locked(5, nil, under("a", held(1, 4, 4, 0, 3000))),
			func(d *Document) (*Document, Outcome, Image) { return p.Release(d, Lease{"a", 1, 3}, 1000) },
			Lost, locked(5, nil, under("a", []Entry{}...)),
		},
		{
			"done keeps eight", locked(5, []ID{11, 12, 13, 14, 15, 16, 17, 18}, under("a", held(1, 4, 4, 0, 100))),
			func(d *Document) (*Document, Outcome, Image) {
				d, outcome, image := p.WriteAndRelease(d, Lease{"a", 1, 4}, 77, 1000)
				if outcome == Applied {
					d.Log = nil
				}
				return d, outcome, image
			},
			Applied, locked(5, []ID{12, 13, 14, 15, 16, 17, 18, 1}, under("a", []Entry{}...)),
		},
		{
			"a handoff decides without the first entry, and prunes", locked(5, nil, under("a", held(1, 4, 4, 0, 100)), under("b", dead)),
			func(d *Document) (*Document, Outcome, Image) {
				return p.Handoff(d, Lease{"a", 1, 4}, successor(two, 2), 1000)
			},
			Granted, locked(1000, nil, under("a", held(2, 1000, 1000, 1000, 1025))),
		},
		{
			"a handoff that isn't possible is a release", locked(6, nil, under("a", held(1, 4, 4, 0, 2000), waits(3, 5, 900, 2000)), under("b", dead)),
			func(d *Document) (*Document, Outcome, Image) {
				return p.Handoff(d, Lease{"a", 1, 4}, successor(two, 2), 1000)
			},
			Conflict, locked(6, nil, under("a", waits(3, 5, 900, 2000)), under("b", dead)),
		},
		{
			"a handoff to a waiting entry keeps its seq", locked(5, nil, under("a", held(1, 4, 4, 0, 2000), waits(2, 5, 900, 2000))),
			func(d *Document) (*Document, Outcome, Image) {
				return p.Handoff(d, Lease{"a", 1, 4}, waiter(two, 2), 1000)
			},
			Granted, locked(1000, nil, under("a", held(2, 5, 1000, 900, 2000))),
		},
		{
			"no handoff past an earlier one, whose waiting is extended", locked(6, nil, under("a", held(1, 4, 4, 0, 2000), waits(3, 5, 900, 2000), waits(2, 6, 900, 1001))),
			func(d *Document) (*Document, Outcome, Image) {
				return p.Handoff(d, Lease{"a", 1, 4}, waiter(two, 2), 1000)
			},
			Waits, locked(6, nil, under("a", waits(3, 5, 900, 2000), waits(2, 6, 900, 1015))),
		},
		{
			"a waiting successor that has left is not made again", locked(5, nil, under("a", held(1, 4, 4, 0, 2000))),
			func(d *Document) (*Document, Outcome, Image) {
				return p.Handoff(d, Lease{"a", 1, 4}, waiter(two, 2), 1000)
			},
			Lost, locked(5, nil, under("a", []Entry{}...)),
		},
		{
			"a handoff without the lease does nothing", locked(5, nil, under("a", held(1, 4, 4, 0, 2000), waits(2, 5, 900, 2000))),
			func(d *Document) (*Document, Outcome, Image) {
				return p.Handoff(d, Lease{"a", 1, 3}, waiter(two, 2), 1000)
			},
			NotApplied, locked(5, nil, under("a", held(1, 4, 4, 0, 2000), waits(2, 5, 900, 2000))),
		},
		{
			"a write goes before its handoff", locked(5, nil, under("a", held(1, 4, 4, 0, 2000))),
			func(d *Document) (*Document, Outcome, Image) {
				return p.WriteAndHandOff(d, Lease{"a", 1, 4}, 77, successor(two, 2), 1000)
			},
			Granted, logged(77, locked(1000, []ID{1}, under("a", held(2, 1000, 1000, 1000, 1025)))),
		},
		{
			"a compare-and-set handoff keeps expires", locked(5, nil, under("a", Entry{ID: 1, Owner: "x", Seq: 4, Fence: 4, Since: 7, Expires: 2000, N: 3}), under("b")),
			func(d *Document) (*Document, Outcome, Image) {
				return p.CompareAndSet(d, Lease{"a", 1, 4}, 77, ask(two, "a", 2), 5, 1000)
			},
			Granted, logged(77, locked(6, []ID{1}, under("a", held(2, 6, 6, 1000, 2000)), under("b"))),
		},
		{
			"a compare-and-set compares", locked(6, nil, under("a", held(1, 4, 4, 0, 2000))),
			func(d *Document) (*Document, Outcome, Image) {
				return p.CompareAndSet(d, Lease{"a", 1, 4}, 77, ask(two, "a", 2), 5, 1000)
			},
			NotApplied, locked(6, nil, under("a", held(1, 4, 4, 0, 2000))),
		},
		{
			"a compare-and-set demands the tag's first entry", locked(5, nil, under("a", held(3, 3, 3, 0, 900), held(1, 4, 4, 0, 2000))),
			func(d *Document) (*Document, Outcome, Image) {
				return p.CompareAndSet(d, Lease{"a", 1, 4}, 77, ask(two, "a", 2), 5, 1000)
			},
			NotApplied, locked(5, nil, under("a", held(3, 3, 3, 0, 900), held(1, 4, 4, 0, 2000))),
		},
	})
}

// detail is one command: the document before and after it, and the outcome.
type detail struct {
	what    string
	before  *Document
	command func(d *Document) (*Document, Outcome, Image)
	outcome Outcome
	after   *Document
}

func inDetail(t *testing.T, details []detail) {
	t.Helper()
	for _, test := range details {
		t.Run(test.what, func(t *testing.T) {
			var copied *Document
			if test.before != nil {
				copied = test.before.clone()
			}
			after, outcome, _ := test.command(test.before)
			if outcome != test.outcome {
				t.Errorf("outcome %s, want %s", outcome, test.outcome)
			}
			if d := cmp.Diff(normal(test.after), normal(after)); d != "" {
				t.Errorf("after (-want +got):\n%s", d)
			}
			if d := cmp.Diff(normal(copied), normal(test.before)); d != "" {
				t.Errorf("the command changed its argument:\n%s", d)
			}
		})
	}
}

// normal makes equal documents look equal: nil and empty arrays are the same.
func normal(d *Document) *Document {
	if d == nil {
		return nil
	}
	c := d.clone()
	for i := range c.Lock.Tags {
		if len(c.Lock.Tags[i].Entries) == 0 {
			c.Lock.Tags[i].Entries = nil
		}
	}
	if len(c.Lock.Tags) == 0 {
		c.Lock.Tags = nil
	}
	return c
}
