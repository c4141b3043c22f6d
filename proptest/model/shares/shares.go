// Package shares is a model of rule 21: callers of one process who use one lease together.
// It is written from the rule's text, and shares no code with the library. It has no clock:
// the lease's validity ends at any moment, and its entry expires at any moment after that.
//
//   - let: nobody who leaves is told nil after a holder was let in whom the lease excludes
//   - told: what a user is told of his update is true, and stays so
//   - empty: who joins has a lease whose entry is there
//   - fresh: what a user reads as of his grant has all that was written before
//   - turn: a holder who waits is let in although new users come all the time
package shares

import (
	"fmt"

	"github.com/doclock/doclock/proptest/model/interleave"
)

// Without leaves out clauses of rule 21. Each is named as what holds with it.
type Without struct {
	WindowEnds       bool // nobody joins later than 200 ms after the grant's send
	ReleaseEndsIt    bool // nobody joins once the release has begun
	ReaderIsAlone    bool // who reads the document as of the grant has a lease of his own
	OneAtATime       bool // the users' writes go one at a time
	UnknownFirst     bool // a write of unknown outcome is settled before the next is sent
	LastReleases     bool // a user who leaves others behind releases nothing
	FirstReleasesAll bool // after the end of the validity the first to leave releases for all
	OthersAreTold    bool // and later ones are told that the lease is lost
	EndsAlone        bool // who detaches or converts the lease is its only user (rule 23)
	UpdateDecides    bool // the verdict of an UpdateAndRelease beside others is its Update's
}

const users = 3

// stage is what a user does.
type stage uint8

const (
	out stage = iota
	using
	writing // waits for the answer of an update
	leaving // has begun a release for all
	left
)

type user struct {
	stage   stage
	k       int8 // the number of his write
	unknown bool // an attempt of it has no answer
	wrote   bool // he writes once
	last    bool // it is an UpdateAndRelease
	let     bool // somebody was let in when he began to leave
}

// world is one state. Its lease was granted to user 0.
type world struct {
	without Without
	readers bool // users read the document as of the grant
	entry   bool // of the lease, in the document
	n       int8 // of its last write
	applied uint8
	let     bool // a holder was let in whom the lease excludes
	valid   bool // the lease, by its holder's clock
	window  bool
	over    bool // the release has begun
	number  int8 // of the last write
	users   [users]user
	late    int8  // a user's write that is on its way, from 1 on
	lateK   int8  // and its number
	denied  uint8 // users who were told that their update was not applied
	faults  int8
	broken  interleave.Violation
}

func newWorld(without Without, readers bool, faults int8) world {
	w := world{without: without, readers: readers, entry: true, valid: true, window: true, faults: faults}
	w.users[0].stage = using
	return w
}

func (w *world) steps() (all []interleave.Change[world]) {
	add := func(what string, change func(n *world)) {
		all = append(all, interleave.Change[world]{What: func() string { return what }, Make: change})
	}
	if w.valid {
		add("the validity ends", func(n *world) { n.valid = false })
	}
	if w.window {
		add("the window ends", func(n *world) { n.window = false })
	}
	if !w.let && (!w.entry || !w.valid) {
		add("a holder is let in", func(n *world) { n.let, n.entry = true, false })
	}
	if w.late != 0 {
		add(fmt.Sprintf("the write of user %d comes late", w.late-1), func(n *world) {
			n.write(int(n.late-1), n.lateK)
			n.late, n.lateK = 0, 0
		})
	}
	for i := range w.users {
		w.stepsOf(i, add)
	}
	return all
}

func (w *world) stepsOf(i int, add func(string, func(n *world))) {
	u := w.users[i]
	say := func(what string) string { return fmt.Sprintf("user %d %s", i, what) }
	switch u.stage {
	case out:
		if w.mayJoin() {
			add(say("joins"), func(n *world) { n.join(i) })
		}
	case using:
		if !u.wrote && !w.isWriting() {
			for _, last := range []bool{false, true} {
				add(say(fmt.Sprintf("writes, and leaves: %v", last)), func(n *world) { n.begin(i, last) })
			}
		}
		add(say("leaves"), func(n *world) { n.leave(i) })
		if w.count() == 1 || w.without.EndsAlone {
			add(say("detaches it, and the token's user releases it"), func(n *world) {
				n.over = true
				n.end(i)
			})
		}
	case writing:
		add(say("waits: his write is answered"), func(n *world) { n.answer(i) })
		if w.faults > 0 && w.late == 0 {
			add(say("waits: his write is on its way, and he waits no longer"), func(n *world) {
				n.faults--
				n.users[i].unknown = true
				n.late, n.lateK = int8(i+1), u.k
			})
		}
		if w.faults > 0 {
			add(say("waits: his write loses its reply"), func(n *world) {
				n.faults--
				n.write(i, u.k)
				n.users[i].unknown = true
			})
		}
	case leaving:
		add(say("waits: his release is answered"), func(n *world) { n.released(i) })
	}
}

// mayJoin reports whether a caller gets the lease without a command.
func (w *world) mayJoin() bool {
	return w.valid && (w.window || w.without.WindowEnds) && (!w.over || w.without.ReleaseEndsIt) && (!w.readers || w.without.ReaderIsAlone) && w.count() > 0
}

func (w *world) count() (n int) {
	for _, u := range w.users {
		if u.stage == using || u.stage == writing || u.stage == leaving {
			n++
		}
	}
	return n
}

func (w *world) join(i int) {
	w.users[i] = user{stage: using}
	switch {
	case !w.entry:
		w.broken.Fail("empty", "user %d joins a lease whose entry is gone", i)
	case w.readers && w.applied != 0:
		w.broken.Fail("fresh", "user %d reads the document as of the grant, and it was written since", i)
	case !w.window:
		w.broken.Fail("turn", "user %d joins a lease for which others may have waited since its grant", i)
	}
}

// isWriting reports whether the gate is closed.
func (w *world) isWriting() bool {
	if w.without.OneAtATime {
		return false
	}
	for _, u := range w.users {
		if u.stage == writing && (!u.unknown || !w.without.UnknownFirst) {
			return true
		}
	}
	return false
}

func (w *world) begin(i int, last bool) {
	w.number++
	w.users[i] = user{stage: writing, k: w.number, wrote: true, last: last}
}

// write executes the user's write under its guard, and reports whether it matched.
func (w *world) write(i int, k int8) bool {
	if !w.entry || w.n >= k {
		return false
	}
	w.n, w.applied = k, w.applied|1<<i
	return true
}

// answer executes an attempt of the write, and answers it. One that finds nothing is
// followed by a read.
func (w *world) answer(i int) {
	u := &w.users[i]
	k, unknown := u.k, u.unknown
	applied := w.write(i, k)
	u.stage, u.unknown = using, false
	switch {
	case applied, w.entry && w.n >= k:
		if w.applied&(1<<i) == 0 {
			w.broken.Fail("told", "user %d is told that his update was applied, and it was not", i)
		}
	case !unknown:
		w.denied |= 1 << i
	}
	if !u.last {
		return
	}
	lost := w.leave(i)
	if lost && w.without.UpdateDecides {
		w.denied |= 1 << i
	}
}

// leave takes the user out, and reports whether he is told that the lease is lost.
func (w *world) leave(i int) (lost bool) {
	u := &w.users[i]
	u.let = w.let
	switch {
	case !w.over && (w.count() == 1 || !w.valid && !w.without.FirstReleasesAll || w.without.LastReleases):
		w.over, u.stage = true, leaving
		return !w.entry
	case w.over:
		lost = !w.without.OthersAreTold
	}
	*u = user{stage: left}
	if !lost && w.let {
		w.broken.Fail("let", "user %d leaves, and is told nil", i)
	}
	return lost
}

// released executes the release for all, and answers it: it is lost if it finds nothing.
func (w *world) released(i int) {
	if w.entry && w.users[i].let {
		w.broken.Fail("let", "the release of user %d finds the entry", i)
	}
	w.end(i)
}

// end removes the entry, with which the user leaves: others must not count on it.
func (w *world) end(i int) {
	for j, u := range w.users {
		if w.entry && w.valid && j != i && (u.stage == using || u.stage == writing) {
			w.broken.Fail("empty", "user %d ends the lease of user %d", i, j)
		}
	}
	w.entry = false
	w.users[i] = user{stage: left}
}

// check checks the properties between two steps.
func (w *world) check() interleave.Violation {
	if w.denied&w.applied != 0 {
		w.broken.Fail("told", "users %b were told that their updates were not applied, and %b were", w.denied, w.applied)
	}
	return w.broken
}
