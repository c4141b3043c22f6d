package relations

import (
	"math/bits"
	"slices"
)

type step int

const (
	arrival step = iota
	confirmation
	abandonment
	release
)

// edge is one possible event. what is the tag of an arrival or release, and the
// position of a confirmed or abandoned entry.
type edge struct {
	to   int32
	step step
	what uint8
}

// graph has every state that can be reached from the empty document with at
// most limit live entries for each tag.
type graph struct {
	*table
	states []state
	edges  [][]edge
}

func (t *table) explore(limit int) *graph {
	g := &graph{table: t}
	index := map[state]int32{}
	add := func(s state) int32 {
		i, known := index[s]
		if !known {
			i = int32(len(g.states))
			index[s] = i
			g.states = append(g.states, s)
		}
		return i
	}
	add(state{})
	for from := 0; from < len(g.states); from++ {
		s := g.states[from]
		var out []edge
		for x := range t.tags {
			if s.live(x, len(s.waiting)) < limit {
				if next, v := t.arrive(s, x); v != refused {
					out = append(out, edge{add(next), arrival, uint8(x)})
				}
			}
			if s.held[x] > 0 {
				next := s
				next.held[x]--
				out = append(out, edge{add(next), release, uint8(x)})
			}
		}
		for i := range len(s.waiting) {
			next := s.without(i)
			out = append(out, edge{add(next), abandonment, uint8(i)})
			if !t.blocked(s, i) {
				next.held[s.waiting[i]]++
				out = append(out, edge{add(next), confirmation, uint8(i)})
			}
		}
		g.edges = append(g.edges, out)
	}
	return g
}

// refuses reports whether x, asking again and again, can be refused each time
// because of z. Every state can be reached again, because all locks can leave.
// So it is enough that x can be refused once.
func (g *graph) refuses(x, z int) bool {
	return g.rel[x][z].Kind == Cooperative && slices.ContainsFunc(g.states, func(s state) bool {
		return g.blocks(s, x, z, len(s.waiting))
	})
}

// starving is a finding of the search. An entry of tag waits behind entries of
// the tags in among (a set, tag included). It can be passed over for ever while
// only entries of the tags in by (a set) come and go.
type starving struct {
	tag   int
	by    int
	among int
}

// starvations looks for every row of waiting entries that can stay unchanged
// for ever, although each of them asks again and again, and every held entry is
// released. by is the set of tags whose entries come and go in the meantime.
//
// The states in which the row is first in the queue, and the steps that leave
// it unchanged, make a graph. A run that stays for ever in one strongly
// connected part can see everything in that part again and again. So the part
// is a starvation if every entry of the row is blocked somewhere in it (and
// asks at that moment), and the others are treated fairly.
func (g *graph) starvations(bys []int) map[starving]bool {
	rows := map[string][]int32{}
	for i, s := range g.states {
		for n := 1; n <= len(s.waiting); n++ {
			rows[s.waiting[:n]] = append(rows[s.waiting[:n]], int32(i))
		}
	}
	found := map[starving]bool{}
	parts := newParts(g)
	for row, states := range rows {
		among := 0
		for _, x := range []byte(row) {
			among |= 1 << x
		}
		for _, by := range bys {
			result := starving{tag: int(row[len(row)-1]), by: by, among: among}
			if found[result] {
				continue
			}
			allowed := func(e edge) bool {
				switch e.step {
				case arrival:
					return by>>e.what&1 == 1
				case confirmation, abandonment:
					return int(e.what) >= len(row)
				}
				return true
			}
			parts.each(states, allowed, func(part []int32, inside func(int32) bool) {
				if g.fair(part, inside, allowed, len(row)) {
					found[result] = true
				}
			})
		}
	}
	return found
}

// fair reports whether a run that stays for ever in part passes over the first
// row entries of the queue, and is otherwise fair.
func (g *graph) fair(part []int32, inside func(int32) bool, allowed func(edge) bool, row int) bool {
	longest := 0
	var blocked, left uint64         // sets of positions in the queue
	var free, released [maxTags]bool // of tags
	moves := false
	for _, i := range part {
		s := g.states[i]
		longest = max(longest, len(s.waiting))
		for p := range len(s.waiting) {
			if blocked>>p&1 == 0 && g.blocked(s, p) {
				blocked |= 1 << p
			}
		}
		for x := range g.tags {
			free[x] = free[x] || s.held[x] == 0
		}
		for _, e := range g.edges[i] {
			if !allowed(e) || !inside(e.to) {
				continue
			}
			moves = true
			switch e.step {
			case release:
				// Of several entries of a tag, this is the one held longest.
				released[e.what] = true
			case confirmation, abandonment:
				left |= 1 << e.what
			}
		}
	}
	if !moves {
		return false
	}
	for x := range g.tags {
		if !free[x] && !released[x] {
			return false
		}
	}
	for p := range longest {
		// The waiter at p asks in vain, or moves up when an entry before it
		// (but behind the row) leaves, or leaves itself.
		if blocked>>p&1 == 0 && bits.TrailingZeros64(left) > p {
			return false
		}
	}
	return true
}

// parts finds strongly connected parts by Tarjan's algorithm.
type parts struct {
	g        *graph
	number   []int32 // order of discovery, 0: not yet
	low      []int32
	member   []int32 // of which call of each is the state
	part     []int32 // of which part, once that is known
	onStack  []bool
	stack    []int32
	calls    int32
	counter  int32
	allowed  func(edge) bool
	found    func([]int32, func(int32) bool)
	partNext int32
}

func newParts(g *graph) *parts {
	n := len(g.states)
	return &parts{g: g, number: make([]int32, n), low: make([]int32, n), member: make([]int32, n),
		part: make([]int32, n), onStack: make([]bool, n)}
}

// each calls found with each strongly connected part of the given states under
// the allowed edges.
func (p *parts) each(states []int32, allowed func(edge) bool, found func([]int32, func(int32) bool)) {
	p.calls++
	p.allowed, p.found = allowed, found
	for _, i := range states {
		p.member[i], p.number[i], p.part[i] = p.calls, 0, 0
	}
	for _, i := range states {
		if p.number[i] == 0 {
			p.visit(i)
		}
	}
}

func (p *parts) visit(i int32) {
	p.counter++
	p.number[i], p.low[i] = p.counter, p.counter
	p.stack = append(p.stack, i)
	p.onStack[i] = true
	for _, e := range p.g.edges[i] {
		if p.member[e.to] != p.calls || !p.allowed(e) {
			continue
		}
		if p.number[e.to] == 0 {
			p.visit(e.to)
			p.low[i] = min(p.low[i], p.low[e.to])
		} else if p.onStack[e.to] {
			p.low[i] = min(p.low[i], p.number[e.to])
		}
	}
	if p.low[i] != p.number[i] {
		return
	}
	p.partNext++
	start := slices.Index(p.stack, i)
	members := slices.Clone(p.stack[start:])
	p.stack = p.stack[:start]
	for _, m := range members {
		p.onStack[m] = false
		p.part[m] = p.partNext
	}
	this := p.partNext
	p.found(members, func(m int32) bool { return p.member[m] == p.calls && p.part[m] == this })
}
