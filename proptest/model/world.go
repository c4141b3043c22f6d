package model

import "slices"

// config is a world's participants and the limits of its events.
type config struct {
	protocol Protocol
	ruleSets []Rules // one for all clients, or one for each
	tags     []Tag   // one for each client

	ttl, waitTTL, tolerance int64
	tick                    int64 // the clock's advance at once

	patience int64 // an attempt that waits in the server is dropped after this time; 0: never

	steps    int  // how often the server's clock may step, within the tolerance
	faults   int  // attempts that are lost, delayed, or not answered
	writes   int  // per lease, those that keep the lock
	rounds   int  // leases per client, those of tokens included
	tries    bool // clients may try-acquire
	checks   bool // clients may prove the lease by a read
	handoffs bool // clients hand over

	tokens bool        // clients detach, and resume what others detached
	users  int         // the number of clients, the last ones, that only show tokens
	beats  int         // heartbeats in all
	lower  map[Tag]Tag // clients downgrade from the tag to the other
	lowers int         // the number of attempts for each lease that were refused, and one more
	hold   int64       // HoldAtLeast of every acquire; 0: none

	outside       outsideWriter // what outside writers may do
	outsideWrites int           // how often they write
	crashes       int           // the number of clients that die
	lenient       bool          // check consequences only (see properties.go)
}

// outsideWriter is what outside writers may do to the document.
type outsideWriter uint8

const (
	nobody  outsideWriter = iota
	deletes               // delete the document, insert it anew
	erases                // erase, spoil or put back the lock as well
)

func (c *config) rules(client int) Rules {
	if len(c.ruleSets) == 1 {
		return c.ruleSets[0]
	}
	return c.ruleSets[client]
}

// world is one state: the document, the clients, the network and the clock. The
// server's clock is the true time plus an offset; the clients' clocks are true.
type world struct {
	cfg           *config
	doc           *Document
	old           *Document // a copy that an outside writer keeps
	time, offset  int64
	steps, faults int // left
	outsideWrites int // left
	crashes       int // left
	beats         int // left
	clients       []client
	tokens        []Token   // that were handed out
	flight        []message // sent and not executed yet; they may never be
	ghost         ghost
	note          note
	broken        *violation
}

// ghost is knowledge for the properties that no participant has.
type ghost struct {
	top     int64    // the highest fence ever
	grants  []grant  // all of them
	applied []Update // in order
	denied  []Update // updates whose client was told that they were not applied
	settled []ID     // ids that must not be in the document any more
	erased  bool     // an outside writer wrote or deleted the lock
}

// grant is a lease as the server granted it.
type grant struct {
	Lease
	line     int64 // the fence of the acquire that it comes from: resumes share it
	by       int   // the client that acquired: its rules hold for the resumes too
	hold     int64 // others are kept out until this time at the server
	limit    int64 // an entry that its release leaves expires by then
	released bool  // a command released the lock
	dropped  bool  // a clean-up removed the entry: its client never had the lease
	excluded bool  // a conflicting lease was granted when it did not count
}

func newWorld(cfg *config) world {
	w := world{
		cfg: cfg, doc: &Document{}, time: cfg.tick,
		steps: cfg.steps, faults: cfg.faults, outsideWrites: cfg.outsideWrites, crashes: cfg.crashes, beats: cfg.beats,
		clients: make([]client, len(cfg.tags)),
	}
	for i, tag := range cfg.tags {
		w.clients[i].home, w.clients[i].tag = tag, tag
	}
	return w
}

// now is the server's time.
func (w *world) now() int64 { return w.time + w.offset }

func (w *world) copy() world {
	n := *w
	n.clients = slices.Clone(w.clients)
	n.flight = slices.Clone(w.flight)
	n.tokens = slices.Clip(w.tokens)
	n.ghost.grants = slices.Clone(w.ghost.grants)
	n.ghost.applied = slices.Clip(w.ghost.applied)
	n.ghost.denied = slices.Clip(w.ghost.denied)
	n.ghost.settled = slices.Clip(w.ghost.settled)
	return n
}

// kind is the kind of a step.
type kind uint8

const (
	doTick    kind = iota // the clock advances
	doStep                // the server's clock steps, by the index
	doPrompt              // a client sends an attempt: executed and answered at once
	doSilent              // …executed, and the answer is lost
	doDelay               // …on its way: executed later, or never
	doParsed              // …the same, but the server has parsed it already
	doArrive              // an attempt that was on its way is executed
	doTimeout             // a client stops waiting for its attempt
	doCrash               // a client stops for good
	doQuit                // a client gives up a handoff, a detach or a resume of unknown outcome
	doForeign             // an outside writer writes, by the index
)

// action is one step, small enough to keep millions.
type action struct {
	kind   kind
	client int8
	index  int8 // of the option, or of the message in flight
}

// actions lists the possible next steps.
func (w *world) actions() []action {
	out := append(make([]action, 0, 32), action{kind: doTick})
	out = append(out, w.clockSteps()...)
	for i := range w.clients {
		c := int8(i)
		for j, m := range w.options(i) {
			n := int8(j)
			out = append(out, action{doPrompt, c, n})
			if w.faults > 0 && m.op != opRead {
				out = append(out, action{doDelay, c, n}, action{doParsed, c, n})
				if m.op != opCheck {
					out = append(out, action{doSilent, c, n})
				}
			}
		}
		if w.clients[i].awaits {
			out = append(out, action{kind: doTimeout, client: c})
		}
		if w.mayQuit(&w.clients[i]) {
			out = append(out, action{kind: doQuit, client: c})
		}
		if w.crashes > 0 && w.clients[i].phase != stopped {
			out = append(out, action{kind: doCrash, client: c})
		}
	}
	for i, m := range w.flight {
		// An awaited attempt that arrives without time in between is the same
		// as one that was executed at once.
		if m.sent < w.time || !w.awaited(m) {
			out = append(out, action{kind: doArrive, index: int8(i)})
		}
	}
	return append(out, w.outsideActions()...)
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

// clockSteps lists the steps of the server's clock: the offset stays between
// 0 and the tolerance, so that no two instants are more than that apart.
func (w *world) clockSteps() []action {
	var out []action
	if w.steps > 0 && w.offset < w.cfg.tolerance {
		out = append(out, action{kind: doStep, index: 1})
	}
	if w.steps > 0 && w.offset > 0 {
		out = append(out, action{kind: doStep, index: -1})
	}
	return out
}

// expireParsed drops the attempts that have waited in the server for too long.
func (w *world) expireParsed() {
	if w.cfg.patience == 0 {
		return
	}
	w.flight = slices.DeleteFunc(w.flight, func(m message) bool {
		expired := m.parsed != 0 && m.parsed+w.cfg.patience <= w.now()
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

// outsideActions lists the possible actions of outside writers.
func (w *world) outsideActions() []action {
	if w.outsideWrites == 0 || w.cfg.outside == nobody {
		return nil
	}
	n := 2
	if w.cfg.outside == erases {
		n = len(outsideNames)
	}
	var out []action
	for i := range n {
		if i == 0 && !w.mayDelete() {
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
	return w.doc != nil && w.doc.Lock.Fence < w.now() && !slices.ContainsFunc(w.flight, parsed)
}

var outsideNames = []string{"delete", "insert", "erase", "nullify", "spoil", "keep a copy", "put the copy back"}

func (w *world) foreign(i int8) {
	w.outsideWrites--
	switch i {
	case 0:
		w.doc = Delete(w.doc)
	case 1:
		w.doc = Insert(w.doc)
	case 2:
		w.doc = Erase(w.doc)
	case 3:
		w.doc = Nullify(w.doc)
	case 4:
		w.doc = Spoil(w.doc)
	case 5:
		w.old = w.doc
	case 6:
		w.doc = PutBack(w.doc, w.old)
	}
	w.ghost.erased = w.ghost.erased || i != 1 && i != 5
}
