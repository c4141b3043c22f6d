package fences

// client is a program that holds the lock once.
type client struct {
	stage   stage
	awaits  bool
	grant   int8
	settles uint8
	slot    int8  // of the mark that it settles now
	named   uint8 // marks that it has settled
	mark    int8  // of its entry
	unsure  bool  // a command that gives it another one has no answer, and may come late
	made    uint8 // slots whose fences are there
	k       [maxSlots]int8
	stuck   bool // a call's outcome is unknown: the entry is left to expire
	calls   [maxCalls]call
}

type stage uint8

const (
	idle     stage = iota // acquires, or breaks; a call has not begun
	settling              // marks that are in its way; a call: its own
	holding
	leaving
	ended
	making    // inserts the fence
	beginning // the transaction
	writing   // the fence, and the function's writes
	committing
	looking   // whether the entry is still there
	remarking // the entry
	closing   // ends what may be open, and says that nothing was applied
	reopening // begins a last transaction: no earlier one can begin after it
)

type call struct {
	stage     stage
	awaits    bool
	slot      int8
	k         int8
	number    int8 // of the session's last transaction
	run       int8 // of the function
	sent      bool // a commit of the run
	late      bool // a first message of unknown outcome may still come
	day       bool // a day has passed since the commit
	again     bool // begins again where the look finds the entry; else it needs a new mark
	undecided bool
}

// awaits is whether the call, or the client for its lease, waits for an answer.
func (w *world) awaits(i int, c int8) *bool {
	if c < 0 {
		return &w.clients[i].awaits
	}
	return &w.clients[i].calls[c].awaits
}

// active reports whether the call is under way.
func (c *call) active() bool { return c.stage != idle && c.stage != ended }

// uses reports whether the call may have, or begin, a transaction.
func (c *call) uses() bool { return c.active() && c.stage != remarking && c.stage != looking }

// choices are the client's steps that send nothing.
func (w *world) choices(i int, c int8, add func(what string, change func(n *world))) {
	cl := &w.clients[i]
	if c < 0 {
		if cl.stage == settling && cl.settles != 0 && w.cfg.without.SettledFirst {
			add("names what it has not settled", func(n *world) {
				n.clients[i].named |= cl.settles
				n.clients[i].settles, n.clients[i].stage = 0, idle
			})
		}
		return
	}
	own := &cl.calls[c]
	switch {
	case own.stage == idle:
		if cl.stage != holding || c > 0 && cl.calls[c-1].stage == idle {
			return
		}
		for slot := range w.cfg.slots {
			if w.gateIsFree(i, c, slot) {
				add("begins", func(n *world) { n.enter(i, c, slot) })
				return
			}
		}
	case own.stage == settling && w.quits > 0:
		add("gives up: the outcome is unknown", func(n *world) {
			n.quits--
			n.undecided(i, c)
		})
	case own.active() && !own.sent && own.stage != closing && own.stage != reopening && w.quits > 0:
		add("gives up", func(n *world) {
			n.quits--
			n.clients[i].calls[c].stage = closing
		})
	}
}

// gateIsFree reports whether the call may begin in the slot.
func (w *world) gateIsFree(i int, c, slot int8) bool {
	for j := range w.cfg.calls {
		o := &w.clients[i].calls[j]
		if j != c && o.active() && (o.slot == slot && !w.cfg.without.Gate || o.stage == remarking || o.stage == looking) {
			return false
		}
	}
	return true
}

func (w *world) enter(i int, c, slot int8) {
	cl := &w.clients[i]
	cl.k[slot]++
	cl.calls[c] = call{stage: making, slot: slot, k: cl.k[slot], run: c * maxRuns}
	w.prepare(i, c)
}

// prepare lets a call begin its transaction, once the entry has a mark, and the fence is made.
func (w *world) prepare(i int, c int8) {
	cl := &w.clients[i]
	own := &cl.calls[c]
	switch {
	case cl.mark == 0, cl.unsure && !w.cfg.without.MarkIsAnswered:
		own.stage = remarking
	case cl.made&(1<<own.slot) != 0:
		own.stage = beginning
	default:
		own.stage = making
	}
}

// undecided ends a call without a word on what it has done.
func (w *world) undecided(i int, c int8) {
	own := &w.clients[i].calls[c]
	*own = call{stage: ended, number: own.number, undecided: true}
	w.clients[i].stuck = true
}

// next is the command that the client, or its call, may send.
func (w *world) next(i int, c int8) (m message, ok bool) {
	cl := &w.clients[i]
	m = message{client: int8(i), call: c, mark: cl.mark, grant: cl.grant}
	if c < 0 {
		return w.nextOfLease(i, cl, m)
	}
	own := &cl.calls[c]
	m.fence, m.number, m.k, m.run = w.fenceOf(i, max(1, cl.mark), own.slot), own.number, own.k, own.run
	m.op, ok = sends[own.stage]
	switch own.stage {
	case beginning, reopening:
		m.number++
	case remarking:
		ok, m.mark = w.cfg.without.RemarkedAlone || w.alone(i, c), cl.mark+1
		if cl.mark == maxMarks {
			m.op = opAbort
		}
	}
	return m, ok
}

// sends has the command that a call sends in a stage.
var sends = map[stage]operation{
	making: opMake, beginning: opFind, reopening: opFind, writing: opFence, committing: opCommit, settling: opSettle,
	looking: opLook, remarking: opRemark, closing: opAbort,
}

// alone reports whether no other call of the lease may have a transaction.
func (w *world) alone(i int, c int8) bool {
	for j := range w.cfg.calls {
		if o := &w.clients[i].calls[j]; j != c && o.uses() {
			return false
		}
	}
	return true
}

func (w *world) nextOfLease(i int, cl *client, m message) (message, bool) {
	switch cl.stage {
	case idle:
		m.op, m.named, m.mark = opAcquire, cl.named, 0
		if w.cfg.programs[i] == breaks {
			m.op = opBreak
			if e := w.lead.docs.lock[0]; !e.held || e.mark != 0 && cl.named&bit(0, e.mark) == 0 && !w.cfg.without.BreakNames {
				return m, false // see learn
			}
		}
		return m, true
	case settling:
		for j := range w.cfg.programs {
			for mark := int8(1); mark <= maxMarks; mark++ {
				if cl.settles&bit(j, mark) != 0 {
					m.op, m.mark, m.fence = opSettle, mark, w.fenceOf(j, mark, cl.slot)
					return m, true
				}
			}
		}
	case holding:
		for j := range w.cfg.calls {
			if cl.calls[j].active() && !w.cfg.without.DecidedBeforeEnd {
				return m, false
			}
		}
		m.op = opRelease
		if w.cfg.programs[i] == deletes {
			m.op = opDelete
		}
		return m, !cl.stuck || w.cfg.without.UnknownKeeps
	case leaving:
		m.op = opRelease
		return m, true
	}
	return m, false
}

// start notes that the command is sent.
func (w *world) start(m message) message {
	cl := &w.clients[m.client]
	if m.op == opRelease {
		cl.stage = leaving
	}
	if m.call < 0 {
		return m
	}
	own := &cl.calls[m.call]
	switch m.op {
	case opFind:
		own.number = m.number
	case opCommit:
		own.sent = true
	}
	return m
}

// answer gives the client an answer.
func (w *world) answer(m message, a answer) {
	i := int(m.client)
	*w.awaits(i, m.call) = false
	cl := &w.clients[i]
	if m.call >= 0 {
		w.answerCall(i, m.call, m, a)
		return
	}
	switch m.op {
	case opAcquire:
		switch {
		case a.ok:
			cl.stage, cl.mark, cl.grant, cl.settles, cl.named = holding, m.mark, a.grant, 0, 0
		case a.blocking != 0:
			cl.stage, cl.settles = settling, a.blocking
		}
	case opSettle:
		if cl.slot++; cl.slot < w.cfg.slots && !w.cfg.without.SettlesAllSlots {
			return
		}
		mark := cl.settles & -cl.settles // the lowest, as it was sent
		cl.slot, cl.named = 0, cl.named|mark
		if cl.settles &^= mark; cl.settles == 0 {
			cl.stage = idle
		}
	case opBreak, opRelease, opDelete:
		cl.stage = ended
	}
}

func (w *world) answerCall(i int, c int8, m message, a answer) {
	cl := &w.clients[i]
	own := &cl.calls[c]
	switch m.op {
	case opMake:
		cl.made |= 1 << own.slot
		w.prepare(i, c)
	case opFind:
		own.late = false
		switch {
		case own.stage == reopening:
			own.stage = closing
		case a.ok:
			own.stage = writing
		case !a.conflict:
			own.stage, own.again = looking, true
		}
	case opFence:
		switch {
		case a.ok:
			own.stage = committing
		case a.conflict:
			own.stage = beginning
		default:
			own.stage, own.again = looking, false
		}
	case opCommit:
		if a.ok {
			w.promise(i, c)
			return
		}
		w.doubt(i, c)
	case opSettle:
		w.settled(i, c, a)
	case opLook:
		switch {
		case !a.ok:
			own.stage = closing
			if w.major.lock[i].grant == m.grant {
				w.broken.Fail("lost", "client %d is told that its lease is lost, and the entry is there", i)
			}
		case own.again:
			w.prepare(i, c)
		default:
			w.anew(i, c)
		}
	case opRemark:
		if !a.ok {
			own.stage = closing
			return
		}
		cl.mark, cl.made, cl.unsure = m.mark, 0, false
		w.prepare(i, c)
	case opAbort:
		if own.late && !w.cfg.without.EndsLateFirst {
			own.stage = reopening
			return
		}
		w.denied |= 1 << (i*maxCalls + int(c))
		*own = call{stage: ended, number: own.number}
	}
}

// doubt is after a commit without an answer that it is applied.
func (w *world) doubt(i int, c int8) {
	own := &w.clients[i].calls[c]
	own.stage = settling
	if w.cfg.without.RunsAgainSettled && own.run%maxRuns < maxRuns-1 {
		own.run++
		own.k++
		own.sent = false
		w.clients[i].k[own.slot] = own.k
		w.prepare(i, c)
	}
}

// settled draws the conclusion from the settle of the own mark.
func (w *world) settled(i int, c int8, a answer) {
	own := &w.clients[i].calls[c]
	switch {
	case w.cfg.without.NumberFirst && a.revoked:
		own.stage, own.again = looking, false
	case a.n >= own.k:
		w.promise(i, c)
	case own.day && !w.cfg.without.OldSettleIsNone:
		w.undecided(i, c)
	default:
		own.stage, own.again = looking, false
	}
}

// anew gives the entry a new mark, for one more run.
func (w *world) anew(i int, c int8) {
	own := &w.clients[i].calls[c]
	if own.sent {
		if own.run%maxRuns == maxRuns-1 {
			own.stage = closing
			return
		}
		own.run++
		own.sent = false
	}
	own.stage = remarking
}

// promise tells the caller that the call was applied.
func (w *world) promise(i int, c int8) {
	w.promised |= 1 << (i*maxCalls + int(c))
	own := &w.clients[i].calls[c]
	*own = call{stage: ended, number: own.number}
}

// unanswered is after a command without an answer.
func (w *world) unanswered(i int, c int8) {
	if c < 0 {
		return
	}
	own := &w.clients[i].calls[c]
	switch own.stage {
	case beginning, reopening:
		own.late = true
	case writing:
		own.stage = beginning
	case committing:
		w.doubt(i, c)
	case remarking: // it is repeated
		cl := &w.clients[i]
		if cl.mark == maxMarks { // it was an abort
			own.stage = closing
			return
		}
		cl.unsure = true
		w.prepare(i, c)
	}
}
