package model

// A client is a program that asks for one lease at a time and believes what
// its answers allow it to believe. It is a bit bolder than the library may
// be: it lets a renewal's answer count however late it comes.
type client struct {
	phase   phase
	round   int     // how many ids it used up
	id      ID      // of the present acquire, or of the lease
	seq     int64   // as its ticket says; 0 without one
	fence   int64   // its token
	valid   int64   // it believes while the true time is before this
	writes  int     // the number of its last guarded write
	newest  ID      // newest in done, in the image of the grant
	sole    int64   // lock.fence of the grant's image, if that showed its entry only
	last    message // the command in question: what a repeat sends again
	unknown bool    // an earlier attempt of it was not answered
	awaits  bool    // an attempt is under way, and the client waits for it
}

// phase is what a client is about.
type phase uint8

const (
	idle       phase = iota // has nothing, may acquire
	requesting              // sent an acquire: not answered, or refused
	waiting                 // has a place in the queue
	promised                // another client is handing it a lease, by an id that doesn't wait
	holding                 // has a lease, as far as it knows
	writing                 // a guarded write wants its answer
	leaving                 // gives the lock, or the place, away
	resolving               // nothing matched after an unknown attempt: must read
	gone                    // has finished, or has crashed
)

func (p phase) String() string {
	return [...]string{"idle", "requesting", "waiting", "promised", "holding",
		"writing", "leaving", "resolving", "gone"}[p]
}

// operation is a command of the protocol, as a client sends it.
type operation uint8

const (
	opAcquire operation = iota
	opTry
	opConfirm
	opRenew
	opCheck // a read that proves the lease, as after a batched renewal
	opWrite
	opWriteRelease
	opRelease
	opHandoff // with an update in front, or none
	opSet     // compare-and-set handoff
	opRead    // to find out what became of an unknown attempt
)

func (o operation) String() string {
	return [...]string{"acquire", "try-acquire", "confirm", "renew", "check", "write", "write-and-release",
		"release", "handoff", "compare-and-set handoff", "read"}[o]
}

// gives reports whether sending the operation gives the lock away.
func (o operation) gives() bool {
	switch o {
	case opWriteRelease, opRelease, opHandoff, opSet:
		return true
	}
	return false
}

// message is one attempt of a command: all that the server is told.
type message struct {
	op     operation
	from   int8 // the client
	to     int8 // handoffs: the heir
	lease  Lease
	second ID     // handoffs, and what follows one: the heir's id
	waits  bool   // handoffs: the heir waits in the document
	k      int    // writes: the number
	u      Update // writes: the update
	f      int64  // compare-and-set: lock.fence in the image of the grant
	until  int64  // compare-and-set: the validity that is left to inherit
	sent   int64  // true time
	parsed int64  // the server's time when it parsed the command; 0: not yet
}

// believes reports whether the client believes to hold its lease.
func (c *client) believes(time int64) bool { return time < c.valid }

// newID is the next id of client i: 10, 11, … for the first one.
func (w *world) newID(i int) ID {
	return ID((i+1)*10 + w.clients[i].round)
}

// owner is the client that an id belongs to.
func owner(id ID) int { return int(id)/10 - 1 }

// options lists the attempts that client i may send now. The list depends on
// the state alone, so that a choice can be replayed by its index.
func (w *world) options(i int) []message {
	c := &w.clients[i]
	if c.awaits {
		return nil
	}
	m := message{from: int8(i), lease: Lease{w.cfg.tags[i], c.id, c.fence}}
	switch c.phase {
	case idle:
		return w.fresh(i, m)
	case requesting:
		return w.requestAgain(c, m)
	case waiting:
		m.lease.Fence = 0
		return []message{m.as(opConfirm), m.as(opRelease)}
	case holding:
		return w.holder(i, c, m)
	case writing:
		return []message{c.last}
	case leaving:
		return w.leaveAgain(c)
	case resolving:
		r := c.last
		r.op = opRead
		return []message{r}
	}
	return nil
}

func (m message) as(op operation) message { m.op = op; return m }

// fresh begins an acquire. Of several clients with the same tag that have
// done nothing yet, only the first begins: the others are its like.
func (w *world) fresh(i int, m message) []message {
	if !w.first(i) {
		return nil
	}
	m.lease.ID = w.newID(i)
	m.lease.Fence = 0
	out := []message{m.as(opAcquire)}
	if w.cfg.tries {
		out = append(out, m.as(opTry))
	}
	return out
}

// first reports whether no client before i is like it and untouched.
func (w *world) first(i int) bool {
	if w.clients[i].round > 0 {
		return true
	}
	for j := range i {
		if o := &w.clients[j]; o.phase == idle && o.round == 0 && w.alike(i, j) {
			return false
		}
	}
	return true
}

// alike reports whether two clients run the same program.
func (w *world) alike(i, j int) bool {
	return w.cfg.tags[i] == w.cfg.tags[j] && (len(w.cfg.tables) == 1 || i == j)
}

func (w *world) requestAgain(c *client, m message) []message {
	m.lease.Fence = 0
	out := []message{m.as(c.last.op)}
	if c.unknown { // give up: the clean-up goes by the id
		out = append(out, m.as(opRelease))
	}
	return out
}

func (w *world) holder(i int, c *client, m message) []message {
	out := make([]message, 0, 8)
	if c.believes(w.time) {
		out = append(out, m.as(opRenew))
		if w.cfg.checks {
			out = append(out, m.as(opCheck))
		}
	}
	m.u = Update(int(c.id)*100 + c.writes + 1)
	if c.writes < w.cfg.writes {
		n := m.as(opWrite)
		n.k = c.writes + 1
		out = append(out, n)
	}
	if w.cfg.writes > 0 {
		out = append(out, m.as(opWriteRelease))
	}
	out = append(out, m.as(opRelease))
	if w.cfg.handoffs {
		out = append(out, w.handoffs(i, c, m)...)
	}
	return out
}

// handoffs lists to whom, and how, client i may hand its lease over: to one
// that waits in the document, or to one that has no entry yet, and may have
// been refused before under the same id.
func (w *world) handoffs(i int, c *client, m message) []message {
	var out []message
	u := m.u
	for j := range w.clients {
		d := &w.clients[j]
		m.to, m.second, m.waits, m.u = int8(j), d.id, d.phase == waiting, 0
		switch {
		case j == i, d.awaits:
			continue
		case d.phase == waiting, d.phase == requesting && d.last.op == opAcquire:
		case d.phase == idle && w.first(j):
			m.second = w.newID(j)
		default:
			continue
		}
		out = append(out, m.as(opHandoff))
		if w.cfg.writes == 0 {
			continue
		}
		m.u = u
		out = append(out, m.as(opHandoff))
		if !m.waits && w.alike(i, j) && c.sole != 0 && c.believes(w.time) {
			n := m.as(opSet)
			n.f, n.until = c.sole, c.valid
			out = append(out, n)
		}
	}
	return out
}

// leaveAgain lists what may be sent once more, or instead, as long as the
// outcome of what gives the lock away is unknown. One try of an update that
// hands over is the handoff, and, where that finds nothing, the update with a
// release; one try of a release the same without the update. Who gives up an
// update still releases.
func (w *world) leaveAgain(c *client) []message {
	m := c.last
	out := []message{m}
	if !c.unknown {
		return out
	}
	if m.second != 0 && !m.handsOver() {
		out = append(out, m.handoffAgain())
	}
	if m.u != 0 {
		m.u, m.f, m.until = 0, 0, 0
		out = append(out, m.as(opRelease))
		if m.second != 0 {
			out = append(out, m.as(opHandoff))
		}
	}
	return out
}

func (m message) handsOver() bool { return m.op == opHandoff || m.op == opSet }

// handoffAgain is the handoff that the plain command came after.
func (m message) handoffAgain() message {
	if m.f != 0 {
		return m.as(opSet)
	}
	return m.as(opHandoff)
}

// plain is the command that follows a handoff that found nothing.
func (m message) plain() message {
	if m.u != 0 {
		return m.as(opWriteRelease)
	}
	return m.as(opRelease)
}
