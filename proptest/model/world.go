package model

import (
	"fmt"
	"slices"

	"github.com/doclock/doclock/proptest/model/interleave"
)

// world is one state: the document, the servers, the clients, the network and the clock. A
// server's clock is the true time plus an offset; the clients' clocks are true.
type world struct {
	cfg     *config
	doc     *Document // after the last committed command
	old     *Document // a copy that an outside writer keeps
	members []member
	leader  int // the member that has a majority
	time    int64
	offsets []int64 // of the servers' clocks
	limits          // that are left
	clients []client
	tokens  []Token   // that were handed out
	flight  []message // sent and not executed yet; they may never be
	ghost   ghost
	note    note
	broken  interleave.Violation
}

// ghost is knowledge for the properties that no participant has.
type ghost struct {
	top     int64    // the highest fence ever
	grants  []grant  // all of them
	applied []Update // in order
	denied  []Update // updates whose client was told that they were not applied
	settled []ID     // ids that must not be in the document any more
	spared  []ID     // take-overs whose client was told that they have ended nothing, and won't
	erased  bool     // an outside writer wrote or deleted the lock
	undone  int64    // the highest fence when an outside writer put an old copy back
	born    int64    // when an outside writer made the document, on the true clock
}

// grant is a lease as the server granted it.
type grant struct {
	Lease
	line     int64 // the fence of the acquire that it comes from: resumes share it
	by       int   // the client that acquired: its rules hold for the resumes too
	hold     int64 // others are kept out until this true time
	limit    int64 // an entry that its release leaves expires by then
	released bool  // a command released the lock
	detached bool  // a command left it to the users of a token
	dropped  bool  // a clean-up removed the entry: its client never had the lease; or an operator did
	broken   bool  // an operator removed the entry: others are let in while the lease counts as valid
	excluded bool  // a conflicting lease was granted when it did not count
}

func newWorld(cfg *config) world {
	w := world{
		cfg: cfg, doc: &Document{}, time: cfg.tick, limits: cfg.limits, clients: make([]client, len(cfg.tags)),
	}
	if cfg.missing {
		w.doc = nil
	}
	w.newMembers()
	for i, tag := range cfg.tags {
		w.clients[i].home, w.clients[i].tag = tag, tag
	}
	return w
}

func (w *world) copy() world {
	n := *w
	n.clients = slices.Clone(w.clients)
	n.flight = slices.Clone(w.flight)
	n.members = slices.Clone(w.members)
	n.offsets = slices.Clone(w.offsets)
	n.tokens = slices.Clip(w.tokens)
	n.ghost.grants = slices.Clone(w.ghost.grants)
	n.ghost.applied = slices.Clip(w.ghost.applied)
	n.ghost.denied = slices.Clip(w.ghost.denied)
	n.ghost.settled = slices.Clip(w.ghost.settled)
	n.ghost.spared = slices.Clip(w.ghost.spared)
	return n
}

type kind uint8

const (
	doTick     kind = iota // the clock advances
	doStep                 // a server's clock steps, by the index
	doPrompt               // a client sends an attempt: executed and answered at once
	doSilent               // …executed, and the answer is lost
	doDelay                // …on its way: executed later, or never
	doParsed               // …the same, but the server has parsed it already
	doArrive               // an attempt that was on its way is executed
	doTimeout              // a client stops waiting for its attempt
	doQuit                 // a client gives up a handoff, a detach or a resume of unknown outcome
	doForeign              // an outside writer writes, by the index
	doBreak                // an operator breaks a held entry, the one of that index
	doPend                 // a client's attempt is executed, and not committed yet
	doCommit               // the leader commits what it executed first
	doElect                // a member is elected, with so much of the leader's tail
	doStepDown             // a deposed primary hears of it, and rolls back
	doLearn                // a member hears what is committed
)

// action is one step, small enough to keep millions.
type action struct {
	kind   kind
	client int8 // or the member, or the clock
	index  int8 // of the option, or of the message in flight
	at     int8 // the member that executes it
}

func (w *world) actions() []action {
	out := make([]action, 0, 32)
	if w.mayTick() {
		out = append(out, action{kind: doTick})
	}
	out = append(out, w.clockSteps()...)
	out = append(out, w.memberActions()...)
	primaries := w.primaries()
	for i := range w.clients {
		c := int8(i)
		for j, m := range w.options(i) {
			out = w.sends(out, primaries, m, c, int8(j))
		}
		if w.clients[i].awaits {
			out = append(out, action{kind: doTimeout, client: c})
		}
		if w.mayQuit(&w.clients[i]) {
			out = append(out, action{kind: doQuit, client: c})
		}
	}
	for i, m := range w.flight {
		// An awaited attempt that arrives without time in between is the same
		// as one that was executed at once.
		if m.sent == w.time && w.awaited(m) {
			continue
		}
		for _, at := range primaries {
			if m.linear && int(at) != w.leader {
				continue // it is not answered
			}
			out = append(out, action{kind: doArrive, index: int8(i), at: at})
		}
	}
	return append(append(out, w.outsideActions()...), w.breakable()...)
}

// mayTick reports whether time may pass: the leader commits a command in time, or is deposed.
func (w *world) mayTick() bool {
	tail := w.members[w.leader].tail
	return len(tail) == 0 || w.cfg.patience == 0 || w.time < tail[0].at+w.cfg.patience
}

// sends adds the ways to send the client's attempt, its option n.
func (w *world) sends(out []action, primaries []int8, m message, c, n int8) []action {
	leader := int8(w.leader)
	for _, at := range primaries {
		if at == leader || w.mayMeet(m, int(at)) {
			out = append(out, action{doPrompt, c, n, at})
		}
	}
	if w.faults == 0 || m.op == opRead {
		return out
	}
	out = append(out, action{doDelay, c, n, leader}, action{doParsed, c, n, leader})
	if m.op != opCheck {
		out = append(out, action{doSilent, c, n, leader})
		if len(w.members) > 1 {
			out = append(out, action{doPend, c, n, leader})
		}
	}
	return out
}

// mayQuit reports whether the client may give up its command and do nothing
// more. Messages under way may still be executed then. (For a handoff, the
// library waits until the server would let others in anyway.)
func (w *world) mayQuit(c *client) bool {
	if !c.unknown || c.awaits {
		return false
	}
	return c.phase == leaving && c.last.second != 0 || c.phase == detaching || c.phase == resuming
}

// expireParsed drops the attempts that have waited in the server for too long.
func (w *world) expireParsed() {
	if w.cfg.patience == 0 {
		return
	}
	w.flight = slices.DeleteFunc(w.flight, func(m message) bool {
		expired := m.parsed != 0 && m.parsed+w.cfg.patience <= w.nowOf(w.clockOf(m, w.leader))
		if expired && w.awaited(m) {
			w.unanswered(&w.clients[m.from])
		}
		return expired
	})
}

// awaited reports whether the attempt's client still waits for it.
func (w *world) awaited(m message) bool {
	c := &w.clients[m.from]
	return c.awaits && c.last == m.unparsed()
}

func (w *world) outsideActions() []action {
	if w.outsideWrites == 0 || w.cfg.outside == nobody {
		return nil
	}
	n := 2
	if w.cfg.outside == erases {
		n = len(outsideWrites)
	}
	var out []action
	for i := range n {
		if i == 0 && !w.mayDelete() || i == 1 && w.doc == nil && w.ghost.top >= w.slowest() { // by a program that has deleted it
			continue
		}
		out = append(out, action{kind: doForeign, index: int8(i)})
	}
	return out
}

// mayDelete reports whether the fences of a new document certainly follow this
// one's. They may not if several were given out in one millisecond and the
// clock has not caught up yet, or if a command that was parsed long ago is
// still to be executed.
func (w *world) mayDelete() bool {
	parsed := func(m message) bool { return m.parsed != 0 }
	return w.doc != nil && w.doc.Lock.Fence < w.slowest() && !slices.ContainsFunc(w.flight, parsed)
}

// outsideWrites are the document after an outside writer's deed.
var outsideWrites = []struct {
	name  string
	write func(*world) *Document
}{
	{"delete", func(*world) *Document { return nil }},
	{"insert", func(w *world) *Document {
		if w.doc != nil {
			return w.doc
		}
		w.ghost.born = w.time
		return &Document{}
	}},
	{"erase", func(w *world) *Document { return w.doc.With(Absent, Lock{}) }},
	{"nullify", func(w *world) *Document { return w.doc.With(Null, Lock{}) }},
	{"spoil", func(w *world) *Document { return w.doc.With(Foreign, Lock{}) }},
	{"keep a copy", func(w *world) *Document { w.old = w.doc; return w.doc }},
	{"put the copy back", func(w *world) *Document {
		if w.old == nil {
			return w.doc
		}
		return w.doc.With(w.old.Field, w.old.Lock)
	}},
}

func (w *world) foreign(i int8) {
	w.outsideWrites--
	w.commitAll()
	w.note.fate = outsideWrites[i].name
	w.doc = outsideWrites[i].write(w)
	if i == 6 {
		w.ghost.undone = w.ghost.top
	}
	w.members[w.leader].known = w.doc
	w.ghost.erased = w.ghost.erased || i != 1 && i != 5
}

func (w *world) breakable() (out []action) {
	if w.breaks == 0 {
		return nil
	}
	i := int8(0)
	for _, e := range w.doc.All() {
		if e.Held() {
			out = append(out, action{kind: doBreak, index: i})
		}
		i++
	}
	return out
}

func (w *world) breakEntry(i int8) {
	w.breaks--
	w.commitAll()
	for tag, e := range w.doc.All() {
		if i--; i >= 0 {
			continue
		}
		w.note.fate = fmt.Sprintf("breaks entry %d", e.ID)
		w.ends(tag, e)
		w.doc, _, _ = w.cfg.protocol.Break(w.doc, Lease{tag, e.ID, e.Fence}, w.now())
		break
	}
	w.members[w.leader].known = w.doc
}

// ends records that a break or a take-over ends the lease of an entry, for all users of its token.
func (w *world) ends(tag Tag, e Entry) {
	line := w.entryOf(tag, e).line
	for j := range w.ghost.grants {
		g := &w.ghost.grants[j]
		g.broken, g.dropped = g.broken || g.line == line, g.dropped || g.line == line
	}
}

// The servers' clocks. In a replica set a command takes the time from the member that executes it, in a sharded
// cluster from the router that it goes through.

// clockOf is the clock of the attempt at the member.
func (w *world) clockOf(m message, at int) int {
	if w.cfg.routers {
		return int(m.from)
	}
	return at
}

func (w *world) nowOf(clock int) int64 { return w.time + w.offsets[clock] }

// now is the time of the clock that is ahead of the others.
func (w *world) now() int64 { return w.time + slices.Max(w.offsets) }

// slowest is the time of the clock that is behind the others.
func (w *world) slowest() int64 { return w.time + slices.Min(w.offsets) }

// clockSteps lists the steps of the clocks. The offsets stay between 0 and the tolerance, so that no two instants
// are more than that apart, or between 0 and the world's skew.
func (w *world) clockSteps() []action {
	if w.steps == 0 {
		return nil
	}
	var out []action
	for i, offset := range w.offsets {
		if offset < max(w.cfg.tolerance, w.cfg.skew) {
			out = append(out, action{kind: doStep, client: int8(i), index: 1})
		}
		if offset > 0 {
			out = append(out, action{kind: doStep, client: int8(i), index: -1})
		}
	}
	return out
}
