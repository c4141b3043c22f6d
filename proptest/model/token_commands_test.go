package model

import "testing"

// with returns the entry with a token, and with the time until which a release
// leaves it.
func with(e Entry, key ID, isDetached bool, until int64) Entry {
	e.Key, e.Detached, e.Until = key, isDetached, until
	return e
}

func numbered(e Entry, n int) Entry { e.N = n; return e }

// TestTokenCommandsInDetail checks what detach, resume, touch, downgrade, and a
// release before its time leave in the document.
func TestTokenCommandsInDetail(t *testing.T) {
	var p Protocol
	rules := Rules{"a": {"a": {Assertive, 0}}, "b": {"c": {Cooperative, 0}}, "c": {}}
	lease, token := Lease{"a", 1, 4}, Token{"a", 7}
	mine := held(1, 4, 4, 0, 2000)
	kept := ask(rules, "a", 2)
	kept.Hold = 100
	resume := func(d *Document) (*Document, Outcome, Image) { return p.Resume(d, token, ask(rules, "a", 2), 1990) }
	touch := func(d *Document) (*Document, Outcome, Image) { return p.Touch(d, token, 20, 5, 1990) }
	release := func(d *Document) (*Document, Outcome, Image) { return p.Release(d, lease, 1990) }
	detach := func(d *Document) (*Document, Outcome, Image) { return p.Detach(d, lease, 7, 20, 5, 1990) }
	downgrade := func(d *Document) (*Document, Outcome, Image) {
		return p.Downgrade(d, lease, 3, ask(rules, "b", 2), 1990)
	}
	a := func(e ...Entry) *Document { return locked(5, nil, under("a", e...)) }
	inDetail(t, []detail{
		{"a detach writes the key and extends", a(numbered(mine, 2)), detach, Detached, a(numbered(with(held(1, 4, 4, 0, 2015), 7, true, 0), 2))},
		{"a detach of another fence", a(held(1, 4, 3, 0, 2000)), detach, Lost, a(held(1, 4, 3, 0, 2000))},
		{
			"a resume is a new handle", a(numbered(with(mine, 7, true, 0), 2)), resume, Granted,
			locked(1990, nil, under("a", with(held(2, 4, 1990, 0, 2015), 7, false, 0))),
		},
		{
			"a resume takes over from a handle", a(with(mine, 7, false, 0)), resume, Granted,
			locked(1990, nil, under("a", with(held(2, 4, 1990, 0, 2015), 7, false, 2000))),
		},
		{
			"a resume finds an expired entry", a(with(held(1, 4, 4, 0, 100), 7, true, 0)), resume, Granted,
			locked(1990, nil, under("a", with(held(2, 4, 1990, 0, 2015), 7, false, 0))),
		},
		{
			"a repeated resume only extends", a(numbered(with(held(2, 4, 4, 0, 2000), 7, false, 0), 2)), resume, Granted,
			a(numbered(with(held(2, 4, 4, 0, 2015), 7, false, 0), 2)),
		},
		{"a resume by another key", a(with(mine, 8, true, 0)), resume, Lost, a(with(mine, 8, true, 0))},
		{"a touch only extends", a(numbered(with(mine, 7, false, 0), 2)), touch, Renewed, a(numbered(with(held(1, 4, 4, 0, 2015), 7, false, 0), 2))},
		{
			"a release before its time leaves an entry", a(numbered(with(mine, 7, false, 1995), 2)), release, Released,
			a(with(held(leftBy(1), 4, 4, 0, 1995), 0, false, 1995)),
		},
		{"a release after it leaves nothing", a(with(mine, 7, false, 1990)), release, Released, a()},
		{"a release of a later handle's entry", a(with(held(1, 4, 5, 0, 2000), 7, false, 0)), release, Lost, a(with(held(1, 4, 5, 0, 2000), 7, false, 0))},
		{
			"a grant sets the time, and lives for as long", &Document{},
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, kept, Queue, 1000) },
			Granted, locked(1000, nil, under("a", with(held(2, 1000, 1000, 1000, 1105), 0, false, 1105))),
		},
		{
			"a repeat does not move the time", locked(1000, nil, under("a", with(held(2, 1000, 1000, 1000, 1105), 0, false, 1105))),
			func(d *Document) (*Document, Outcome, Image) { return p.Acquire(d, kept, Queue, 1090) },
			Granted, locked(1000, nil, under("a", with(held(2, 1000, 1000, 1000, 1115), 0, false, 1105))),
		},
		{
			"a handoff before its time is a release", a(with(mine, 0, false, 1995)),
			func(d *Document) (*Document, Outcome, Image) { return p.Handoff(d, lease, successor(rules, 2), 1990) },
			Conflict, a(with(held(leftBy(1), 4, 4, 0, 1995), 0, false, 1995)),
		},
		{
			"a downgrade prunes, and has no key", locked(5, nil, under("a", with(mine, 7, false, 0)), under("c", held(9, 1, 1, 0, 100))), downgrade,
			Granted, locked(1990, nil, under("b", held(2, 1990, 1990, 1990, 2015))),
		},
		{
			"a refused downgrade writes its number", locked(5, nil, under("a", mine), under("c", waits(9, 5, 0, 2000))), downgrade,
			Conflict, locked(5, nil, under("a", numbered(mine, 3)), under("c", waits(9, 5, 0, 2000))),
		},
		{"and is final", a(numbered(mine, 3)), downgrade, Conflict, a(numbered(mine, 3))},
		{"a downgrade before its time is refused", a(with(mine, 0, false, 1995)), downgrade, Conflict, a(numbered(with(mine, 0, false, 1995), 3))},
		{
			"a repeated downgrade extends", locked(5, nil, under("b", held(2, 5, 5, 0, 2000))), downgrade,
			Granted, locked(5, nil, under("b", held(2, 5, 5, 0, 2015))),
		},
		{"a downgrade without the lease", a(held(1, 4, 3, 0, 2000)), downgrade, Lost, a(held(1, 4, 3, 0, 2000))},
	})
}
