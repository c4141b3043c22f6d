package model

import "slices"

// This file decides starvation by search. Time stands still: no client dies,
// and every entry stays live. A state is the order of the entries, with the
// held ones marked. Clients come, poll and leave in any order. A waiting client
// starves if there is a fair run on which each of its polls fails: a run on
// which every holder leaves in the end, and every waiter polls again and again.
// (Each poll may come at the worst moment, because a free lock does not stay
// free.)

// place is one entry in the order of arrival.
type place struct {
	client int8
	tag    int8
	held   bool
}

// queues is the graph of all states for one set of rules.
type queues struct {
	protocol Protocol
	rules    Rules
	tags     []Tag
	watched  Tag // the tag of client 0, which never leaves; "" for none
	clients  int // the number of clients; the others take any tag

	states [][]place
	index  map[string]int
	next   [][]int
	stuck  [][]bool // per state and client: it polls in vain
}

// explore builds the graph of all states that can be reached.
func explore(rules Rules, watched Tag, clients int) *queues {
	q := &queues{rules: rules, tags: rules.Tags(), watched: watched, clients: clients, index: map[string]int{}}
	q.state(nil)
	for i := 0; i < len(q.states); i++ {
		q.expand(i)
	}
	return q
}

// state returns the number of a state, a new one if it is unknown.
func (q *queues) state(s []place) int {
	key := make([]byte, 0, 3*len(s))
	for _, p := range s {
		key = append(key, byte(p.client), byte(p.tag), byte(bit(p.held)))
	}
	i, known := q.index[string(key)]
	if !known {
		i = len(q.states)
		q.index[string(key)] = i
		q.states = append(q.states, s)
		q.next = append(q.next, nil)
		q.stuck = append(q.stuck, make([]bool, q.clients))
	}
	return i
}

// document is the state as the protocol's document. Numbers are places.
func (q *queues) document(s []place) *Document {
	d := &Document{Field: Ours, Lock: Lock{Fence: int64(len(s))}}
	for i, p := range s {
		e := Entry{ID: ID(p.client) + 1, Seq: int64(i + 1), Expires: 2}
		if p.held {
			e.Fence = e.Seq
		}
		d.push(q.tags[p.tag], e)
	}
	return d
}

func (q *queues) request(tag int8, client int8) Request {
	return Request{Rules: q.rules, Tag: q.tags[tag], ID: ID(client) + 1, TTL: 1, WaitTTL: 1}
}

// expand adds all next states of state i.
func (q *queues) expand(i int) {
	s := q.states[i]
	d := q.document(s)
	here := make([]bool, q.clients)
	for j, p := range s {
		here[p.client] = true
		if !p.held {
			_, outcome, _ := q.protocol.Confirm(d, q.request(p.tag, p.client), 1)
			if outcome == Granted {
				granted := slices.Clone(s)
				granted[j].held = true
				q.next[i] = append(q.next[i], q.state(granted))
			} else {
				q.stuck[i][p.client] = true
			}
		}
		// Holders leave. The other waiters may give up; the watched one waits.
		if p.client != 0 || p.held || q.watched == "" {
			q.next[i] = append(q.next[i], q.state(slices.Delete(slices.Clone(s), j, j+1)))
		}
	}
	for c := range int8(q.clients) {
		if here[c] {
			continue
		}
		for tag := range int8(len(q.tags)) {
			if c == 0 && q.watched != "" && q.tags[tag] != q.watched {
				continue
			}
			_, outcome, _ := q.protocol.Acquire(d, q.request(tag, c), Queue, 1)
			if outcome != Conflict {
				joined := append(slices.Clone(s), place{c, tag, outcome == Granted})
				q.next[i] = append(q.next[i], q.state(joined))
			}
		}
	}
}

// waiterStarves decides by search whether a waiting entry of tag x can be
// overtaken for ever, with that many other clients.
func waiterStarves(t Rules, x Tag, others int) bool {
	q := explore(t, x, others+1)
	waits := func(i int) bool { return q.holds(i, 0) == waitingPlace }
	return q.fairRun(waits, func(i int) bool { return q.stuck[i][0] })
}

// requesterStarves decides by search whether every arrival of tag x can be
// refused for ever.
func requesterStarves(t Rules, x Tag, others int) bool {
	q := explore(t, "", others)
	refused := func(i int) bool {
		r := Request{Rules: t, Tag: x, ID: ID(others) + 1, TTL: 1, WaitTTL: 1}
		_, outcome, _ := q.protocol.Acquire(q.document(q.states[i]), r, Queue, 1)
		return outcome == Conflict
	}
	return q.fairRun(func(int) bool { return true }, refused)
}

// A client's possessions in a state.
const (
	noPlace = iota
	waitingPlace
	heldPlace
)

func (q *queues) holds(i int, client int8) int {
	for _, p := range q.states[i] {
		switch {
		case p.client != client:
		case p.held:
			return heldPlace
		default:
			return waitingPlace
		}
	}
	return noPlace
}

// fairRun reports whether an endless fair run stays among the states inside,
// and visits again and again one where the wish fails. It exists if and only if
// some strongly connected part has such a state and, for every client, a state
// where it doesn't hold, and one where it doesn't wait or polls in vain. A poll
// in vain doesn't change the state, so a single state with such a poll is a
// run.
func (q *queues) fairRun(inside, fails func(int) bool) bool {
	for _, part := range q.parts(inside) {
		if !slices.ContainsFunc(part, fails) {
			continue
		}
		fair := true
		for c := range int8(q.clients) {
			fair = fair &&
				slices.ContainsFunc(part, func(i int) bool { return q.holds(i, c) != heldPlace }) &&
				slices.ContainsFunc(part, func(i int) bool { return q.holds(i, c) != waitingPlace || q.stuck[i][c] })
		}
		if fair {
			return true
		}
	}
	return false
}

// parts returns the strongly connected parts of the states inside (Tarjan's
// algorithm).
func (q *queues) parts(inside func(int) bool) [][]int {
	order := make([]int, len(q.states)) // 0: not seen; else the order of discovery
	low := make([]int, len(q.states))
	open := make([]bool, len(q.states))
	var stack []int
	var parts [][]int
	clock := 0
	var visit func(int)
	visit = func(i int) {
		clock++
		order[i], low[i], open[i] = clock, clock, true
		stack = append(stack, i)
		for _, n := range q.next[i] {
			switch {
			case !inside(n):
			case order[n] == 0:
				visit(n)
				low[i] = min(low[i], low[n])
			case open[n]:
				low[i] = min(low[i], order[n])
			}
		}
		if low[i] != order[i] {
			return
		}
		at := slices.Index(stack, i)
		part := slices.Clone(stack[at:])
		stack = stack[:at]
		for _, n := range part {
			open[n] = false
		}
		parts = append(parts, part)
	}
	for i := range q.states {
		if inside(i) && order[i] == 0 {
			visit(i)
		}
	}
	return parts
}
