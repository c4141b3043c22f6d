package fences

// The bounds of a world.
const (
	maxClients = 3
	maxCalls   = 2 // of a client
	maxRuns    = 2 // of a call
	maxMarks   = 2 // of a client
	maxSlots   = 2 // of a mark
)

// data are the documents that the commands write, and what the properties need to know of
// their order.
type data struct {
	lock   [maxClients]entry
	fences [maxClients * maxMarks * maxSlots]fence
	runs   uint16           // the function's runs whose writes are there
	grants [maxClients]int8 // of the client: a late duplicate of its acquire may be one
	over   [maxClients]int8 // the last of them after which one was granted that excludes it
	late   bool             // a run under one of these was committed
}

// entry is a client's.
type entry struct {
	held  bool
	mark  int8 // from 1 on; 0: none yet, and so no transaction
	grant int8 // the fencing token
}

type fence struct {
	there, revoked bool
	n              int8
}

// server is a primary: its documents, and the transactions in its memory, one a session.
type server struct {
	docs data
	txns [maxClients * maxCalls]txn
}

type txn struct {
	number int8 // the greatest that the session has begun
	open   bool
	done   bool // committed
	wrote  bool // its fence, which it keeps from others until its end
	stale  bool // its fence was written by others since its snapshot
	fence  int8
	k, run int8
	grant  int8
}

type operation uint8

const (
	opAcquire operation = iota
	opRelease
	opDelete // of the document, under the guard
	opBreak  // of client 0's entry
	opSettle // of one slot: each is a statement of its own
	opMake   // inserts a fence
	opRemark // gives the entry a new mark
	opLook   // reads whether the entry is there, linearizable
	opFind   // begins a transaction: is the entry there?
	opFence  // in the transaction: its fence
	opCommit
	opAbort
)

func (o operation) String() string {
	return [...]string{"acquire", "release", "delete", "break", "settle", "make", "remark", "look", "find", "fence", "commit", "abort"}[o]
}

// inTransaction reports whether the operation changes nothing before the commit.
func (o operation) inTransaction() bool { return o == opFind || o == opFence || o == opAbort }

type message struct {
	op           operation
	client, call int8 // call is -1 for the lease's own commands
	mark         int8
	fence        int8
	number       int8 // of the transaction
	k, run       int8
	named        uint8 // marks
	grant        int8  // of the client's lease
}

type answer struct {
	ok       bool
	conflict bool  // the transaction is aborted, or was none
	blocking uint8 // marks of expired entries that keep the acquire out
	n        int8  // of the call's own fence
	revoked  bool  // by an earlier settle
	grant    int8
}

// bit is the bit of a client's mark.
func bit(client int, mark int8) uint8 { return 1 << (client*maxMarks + int(mark) - 1) }

// fenceOf is the index of a mark's fence.
func (w *world) fenceOf(client int, mark, slot int8) int8 {
	if w.cfg.without.FenceIsOfSlot {
		slot = 0
	}
	if w.cfg.without.FenceIsOfGrant {
		client, mark = 0, 1
	}
	return (int8(client)*maxMarks+mark-1)*maxSlots + slot
}

// mayRun reports whether the server executes the command now. A settle waits for the
// transaction that has written its fence.
func (w *world) mayRun(s *server, m message) bool {
	return m.op != opSettle || w.cfg.without.SettleWrites || !w.isWritten(s, m, nil)
}

// isWritten reports whether an open transaction, other than this one, has written the command's fence.
func (w *world) isWritten(s *server, m message, own *txn) bool {
	for i := range s.txns {
		if t := &s.txns[i]; t != own && t.open && t.wrote && t.fence == m.fence {
			if by := i / maxCalls; by != int(m.client) && !w.cfg.excludes(int(m.client), by) {
				w.broken.Fail("waits", "%v waits for a transaction of client %d, or conflicts with it", m, by)
			}
			return true
		}
	}
	return false
}

// execute executes the command.
func (w *world) execute(s *server, m message) answer {
	d, t := &s.docs, &s.txns[int(m.client)*maxCalls+max(0, int(m.call))]
	own := &d.lock[m.client]
	switch m.op {
	case opAcquire:
		return w.acquire(d, m)
	case opRelease:
		if own.grant == m.grant {
			*own = entry{}
		}
	case opDelete:
		return w.delete(d, m)
	case opBreak:
		e := &d.lock[0]
		if e.mark != 0 && m.named&bit(0, e.mark) == 0 && !w.cfg.without.BreakNames {
			return answer{}
		}
		*e = entry{}
	case opSettle:
		return w.settle(s, m)
	case opMake:
		if f := &d.fences[m.fence]; !f.there {
			*f = fence{there: true}
			s.stale(m.fence)
		}
	case opRemark:
		if own.grant != m.grant || own.mark != m.mark && own.mark != m.mark-1 {
			return answer{}
		}
		own.mark = m.mark
	case opLook:
		return answer{ok: own.grant == m.grant}
	case opFind:
		if m.number <= t.number {
			return answer{conflict: true}
		}
		*t = txn{number: m.number, open: true, fence: m.fence, k: m.k, run: m.run, grant: m.grant}
		return answer{ok: own.grant == m.grant && m.mark != 0 && own.mark == m.mark}
	case opAbort:
		if t.number == m.number {
			t.open = false
		}
	case opFence, opCommit:
		if t.number == m.number && t.done {
			return answer{ok: true}
		}
		if t.number != m.number || !t.open {
			return answer{conflict: true}
		}
		if m.op == opFence {
			return w.writeFence(s, t, m)
		}
		w.commitTxn(s, t, int(m.client))
	}
	return answer{ok: true}
}

// acquire grants the lock, or changes nothing.
func (w *world) acquire(d *data, m message) (a answer) {
	if e := d.lock[m.client]; e.held {
		return answer{ok: true, grant: e.grant}
	}
	kept := func(j int) bool { return d.lock[j].mark != 0 && m.named&bit(j, d.lock[j].mark) == 0 }
	refused := false
	for j, e := range d.lock {
		switch {
		case !e.held || !w.cfg.excludes(int(m.client), j):
		case !w.hasExpired(j):
			refused = true
		case kept(j) && !w.cfg.without.StaysUntilNamed:
			a.blocking |= bit(j, e.mark)
		}
	}
	if refused || a.blocking != 0 {
		return a
	}
	for j, e := range d.lock {
		if e.held && w.hasExpired(j) && (!kept(j) || w.cfg.without.PrunedIfNamed || w.cfg.without.StaysUntilNamed) {
			d.lock[j] = entry{}
		}
	}
	d.grants[m.client]++
	d.lock[m.client] = entry{true, m.mark, d.grants[m.client]}
	for j := range d.lock {
		if j != int(m.client) && w.cfg.excludes(int(m.client), j) {
			d.over[j] = d.grants[j]
		}
	}
	return answer{ok: true, grant: d.grants[m.client]}
}

// delete deletes the document under the guard.
func (w *world) delete(d *data, m message) answer {
	if d.lock[m.client].grant != m.grant {
		return answer{}
	}
	for j, e := range d.lock {
		if j != int(m.client) && e.held && e.mark != 0 && !w.cfg.without.DeleteIsAlone {
			return answer{}
		}
	}
	d.lock = [maxClients]entry{}
	return answer{ok: true}
}

// settle revokes a fence.
func (w *world) settle(s *server, m message) answer {
	f := &s.docs.fences[m.fence]
	a := answer{ok: true, n: f.n, revoked: f.revoked}
	if !w.cfg.without.SettleWrites && (f.there || !w.cfg.without.SettleInserts) {
		f.there, f.revoked = true, true
		s.stale(m.fence)
	}
	return a
}

// stale notes that a fence was written: transactions that began before can't write it.
func (s *server) stale(f int8) {
	for i := range s.txns {
		if t := &s.txns[i]; t.open && t.fence == f {
			t.stale = true
		}
	}
}

func (w *world) writeFence(s *server, t *txn, m message) answer {
	f := s.docs.fences[t.fence]
	switch {
	case w.isWritten(s, m, t), t.stale:
		t.open = false
		return answer{conflict: true}
	case !f.there, f.n >= m.k, f.revoked && !w.cfg.without.RevokedIsTested:
		return answer{}
	}
	t.wrote = !w.cfg.without.FenceIsWritten
	return answer{ok: true}
}

func (w *world) commitTxn(s *server, t *txn, client int) {
	t.open, t.done = false, true
	if t.wrote {
		s.docs.fences[t.fence].n = t.k
		s.stale(t.fence)
	}
	s.docs.runs |= runBit(client, t.run)
	s.docs.late = s.docs.late || t.grant <= s.docs.over[client]
}

// runBit is the bit of a run, which is numbered through the client's calls.
func runBit(client int, run int8) uint16 { return 1 << (client*maxCalls*maxRuns + int(run)) }
