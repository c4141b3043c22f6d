package fences

import (
	"fmt"
	"math/bits"

	"github.com/doclock/doclock/proptest/model/interleave"
)

// config is a world's size. Client 0 has transactions.
type config struct {
	without  Without
	shared   [maxClients]bool // the client's tag tolerates others of it; else it excludes all
	programs []program
	slots    int8
	calls    int8 // of each client that is fenced
	limits
}

// limits are how often things may happen in a world.
type limits struct {
	faults    int8 // replies that are lost, messages that come late, commands that a majority has later or never
	elections int8
	days      int8
	quits     int8 // calls that end before they have an outcome
}

type program uint8

const (
	locks   program = iota // acquires a lock that is not fenced, and releases it
	fenced                 // has transactions in between
	deletes                // deletes the document instead of the release
	breaks                 // breaks client 0's lease, as an operator does
)

// excludes reports whether two clients may not hold the lock together.
func (c *config) excludes(i, j int) bool { return !c.shared[i] || !c.shared[j] }

type world struct {
	cfg       *config
	major     data // what a majority has
	lead, old server
	deposed   bool      // old believes that it is the primary
	tail      [2]pended // what lead has executed, and no majority has yet
	pending   int8
	flight    [2]flying // messages that come late, or never
	flights   int8
	expired   uint8 // clients whose entries have expired
	clients   [maxClients]client
	denied    uint8 // calls that were told that nothing of them was applied
	promised  uint8 // calls that were told that they were applied
	limits          // that are left
	broken    interleave.Violation
}

type pended struct {
	after   data
	message message
	answer  answer
	awaited bool
}

type flying struct {
	message message
	awaited bool
}

func newWorld(cfg *config) world {
	return world{cfg: cfg, limits: cfg.limits}
}

func (w *world) callsOf(client int) int8 {
	if w.cfg.programs[client] != fenced {
		return 0
	}
	return w.cfg.calls
}

func (w *world) hasExpired(client int) bool { return w.expired&(1<<client) != 0 }

func (w *world) steps() (out []interleave.Change[world]) {
	add := func(what func() string, change func(n *world)) {
		out = append(out, interleave.Change[world]{What: what, Make: change})
	}
	say := func(format string, args ...any) func() string {
		return func() string { return fmt.Sprintf(format, args...) }
	}
	for i := range w.cfg.programs {
		if w.lead.docs.grants[i] > 0 && !w.hasExpired(i) {
			add(say("the entry of client %d expires", i), func(n *world) { n.expired |= 1 << i })
		}
		for c := int8(-1); c < w.callsOf(i); c++ {
			w.actorSteps(i, c, add)
		}
	}
	for i := range w.flights {
		m := w.flight[i].message
		add(say("late: %v", m), func(n *world) { n.arrive(i, &n.lead) })
		if w.deposed {
			add(say("late, at the deposed primary: %v", m), func(n *world) { n.arrive(i, &n.old) })
		}
	}
	if w.pending > 0 {
		add(say("a majority has: %v", w.tail[0].message), (*world).commit)
	}
	if w.elections > 0 && !w.deposed {
		for keep := range w.pending + 1 {
			add(say("an election, with %d of the commands that no majority had", keep), func(n *world) { n.elect(keep) })
		}
	}
	if w.deposed {
		add(say("the deposed primary steps down"), func(n *world) { n.old, n.deposed = server{}, false })
	}
	for i := range w.lead.txns {
		if w.lead.txns[i].open {
			add(say("the server ends the transaction of client %d, call %d", i/maxCalls, i%maxCalls), func(n *world) { n.lead.txns[i].open = false })
		}
	}
	if w.days > 0 && !w.deposed && w.pending == 0 {
		add(say("a day passes"), (*world).day)
	}
	return out
}

// actorSteps are the steps of a call, or of the lease's own commands.
func (w *world) actorSteps(i int, c int8, add func(func() string, func(n *world))) {
	say := func(fate string, m message) func() string { return func() string { return fmt.Sprint(fate, ": ", m) } }
	if *w.awaits(i, c) {
		add(func() string { return fmt.Sprintf("client %d, call %d: waits no longer", i, c) }, func(n *world) { n.timeout(i, c) })
		return
	}
	w.choices(i, c, func(what string, change func(n *world)) {
		add(func() string { return fmt.Sprintf("client %d, call %d: %s", i, c, what) }, change)
	})
	m, ok := w.next(i, c)
	if !ok {
		return
	}
	if w.room(m) && w.mayRun(&w.lead, m) {
		add(say("sent", m), func(n *world) { n.serve(n.start(m), true) })
		if w.faults > 0 {
			add(say("sent, the reply is lost", m), func(n *world) {
				n.faults--
				n.serve(n.start(m), false)
				n.timeout(i, c)
			})
		}
		if w.faults > 0 && w.cfg.elections > 0 && w.pending == 0 && !m.op.inTransaction() && m.op != opLook {
			add(say("sent, no majority has it yet", m), func(n *world) {
				n.faults--
				n.pend(n.start(m))
			})
		}
	}
	if w.faults > 0 && w.flights < int8(len(w.flight)) {
		add(say("on its way", m), func(n *world) {
			n.faults--
			n.flight[n.flights] = flying{n.start(m), true}
			n.flights++
			*n.awaits(i, c) = true
		})
	}
	if w.deposed && w.mayRun(&w.old, m) {
		add(say("sent to the deposed primary", m), func(n *world) { n.meetDeposed(n.start(m)) })
	}
}

// room reports whether the leader can execute the command: a linearizable read, and a
// bounded tail, wait for a majority.
func (w *world) room(m message) bool {
	if m.op == opLook && !w.cfg.without.GoneIsRead {
		return w.pending == 0
	}
	return w.pending == 0 || m.op.inTransaction() || w.pending < int8(len(w.tail))
}

// serve has the leader execute a command. What no majority has is answered later.
func (w *world) serve(m message, awaited bool) {
	if w.pending > 0 && !m.op.inTransaction() {
		w.pend(m)
		return
	}
	a := w.execute(&w.lead, m)
	if !m.op.inTransaction() {
		w.major = w.lead.docs
	}
	if awaited {
		w.answer(m, a)
	}
}

// pend has the leader execute a command that no majority has yet.
func (w *world) pend(m message) {
	a := w.execute(&w.lead, m)
	w.tail[w.pending] = pended{w.lead.docs, m, a, true}
	w.pending++
	*w.awaits(int(m.client), m.call) = true
	if m.op == opSettle && w.cfg.without.SettleIsMajority {
		w.tail[w.pending-1].awaited = false
		w.answer(m, a)
	}
}

func (w *world) commit() {
	p := w.tail[0]
	w.tail[0], w.tail[1] = w.tail[1], pended{}
	w.pending--
	w.major = p.after
	if p.awaited {
		w.answer(p.message, p.answer)
	}
}

// elect makes another member the leader. It has what a majority has, and the first of the
// commands after that, which nobody answers. It knows a session's transaction only if it
// was committed.
func (w *world) elect(keep int8) {
	w.elections--
	w.old, w.deposed = w.lead, true
	if keep > 0 {
		w.major = w.tail[keep-1].after
	}
	w.tail, w.pending = [2]pended{}, 0
	w.lead = server{docs: w.major}
	for i, t := range w.old.txns {
		if t.done && w.major.runs&runBit(i/maxCalls, t.run) != 0 {
			w.lead.txns[i] = t
		}
	}
}

// meetDeposed has the deposed primary execute a command. What it writes has no majority,
// and no answer.
func (w *world) meetDeposed(m message) {
	a := w.execute(&w.old, m)
	if m.op.inTransaction() || m.op == opSettle && w.cfg.without.SettleIsMajority || m.op == opLook && w.cfg.without.GoneIsRead {
		w.answer(m, a)
		return
	}
	w.timeout(int(m.client), m.call)
}

// arrive has a server execute a message that comes late.
func (w *world) arrive(i int8, s *server) {
	f := w.flight[i]
	if !w.mayRun(s, f.message) || s == &w.lead && !w.room(f.message) {
		return
	}
	w.flight[i], w.flight[w.flights-1] = w.flight[w.flights-1], flying{}
	w.flights--
	awaits := w.awaits(int(f.message.client), f.message.call)
	*awaits = *awaits && !f.awaited
	switch {
	case s == &w.old && f.awaited:
		w.meetDeposed(f.message)
	case s == &w.old:
		w.execute(s, f.message)
	case w.pending > 0 && !f.message.op.inTransaction():
		w.pend(f.message)
		w.tail[w.pending-1].awaited = f.awaited
		*awaits = f.awaited || *awaits
	default:
		w.serve(f.message, f.awaited)
	}
}

func (w *world) timeout(i int, c int8) {
	for j := range w.tail {
		if p := &w.tail[j]; int(p.message.client) == i && p.message.call == c {
			p.awaited = false
		}
	}
	for j := range w.flight {
		if f := &w.flight[j]; int(f.message.client) == i && f.message.call == c {
			f.awaited = false
		}
	}
	*w.awaits(i, c) = false
	w.unanswered(i, c)
}

// day lets a day pass: no message and no transaction lives that long, and the fences' index
// has removed them all.
func (w *world) day() {
	w.days--
	w.flight, w.flights = [2]flying{}, 0
	for i := range w.cfg.programs {
		for c := int8(-1); c < w.callsOf(i); c++ {
			if *w.awaits(i, c) {
				w.timeout(i, c)
			}
		}
		cl := &w.clients[i]
		if cl.stage == idle && !w.cfg.without.SettleIsFresh {
			cl.named = 0
		}
		for c := range cl.calls {
			cl.calls[c].day = cl.calls[c].day || cl.calls[c].sent
		}
	}
	for i := range w.lead.txns {
		w.lead.txns[i].open = false
	}
	w.lead.docs.fences = [len(w.lead.docs.fences)]fence{}
	w.major = w.lead.docs
}

// check checks the properties between two steps.
func (w *world) check() interleave.Violation {
	if w.major.late {
		w.broken.Fail("late", "a transaction was committed after the grant of a lease that its own excludes")
	}
	for i := range w.cfg.programs {
		for c := range w.callsOf(i) {
			at := i*maxCalls + int(c)
			runs := bits.OnesCount16(w.major.runs >> (at * maxRuns) & (1<<maxRuns - 1))
			switch {
			case runs > 1:
				w.broken.Fail("told", "two runs of client %d, call %d were committed", i, c)
			case runs > 0 && w.denied&(1<<at) != 0:
				w.broken.Fail("told", "client %d, call %d was told that nothing was applied, and a run was committed", i, c)
			case runs == 0 && w.promised&(1<<at) != 0:
				w.broken.Fail("told", "client %d, call %d was told that it was applied, and no run is there", i, c)
			}
			if w.cfg.elections == 0 && w.clients[i].calls[c].stage == ended && !w.clients[i].calls[c].undecided {
				w.checkOpen(i, c)
			}
		}
	}
	return w.broken
}

// checkOpen checks that a call that has ended has no open transaction, and will have none.
func (w *world) checkOpen(i int, c int8) {
	t := w.lead.txns[i*maxCalls+int(c)]
	if t.open {
		w.broken.Fail("open", "client %d, call %d has ended, and its transaction is open", i, c)
	}
	for _, f := range w.flight[:w.flights] {
		if m := f.message; int(m.client) == i && m.call == c && m.op == opFind && m.number > t.number {
			w.broken.Fail("open", "client %d, call %d has ended, and its first message may still begin a transaction", i, c)
		}
	}
}

func (m message) String() string {
	type fields message // without this method
	client, call, op := m.client, m.call, m.op
	m.client, m.call, m.op = 0, 0, 0
	return fmt.Sprintf("client %d, call %d: %v %s", client, call, op, interleave.Terse(fields(m)))
}
