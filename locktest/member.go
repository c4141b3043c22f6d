package locktest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/doclock/doclock/locktest/internal/store"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// member is one member of a [Server]. Its fields need the server's mutex.
type member struct {
	name     string        // its address in this process
	address  string        // its address for others, after Listen
	ahead    time.Duration // of its clock, before this machine's
	isolated bool

	term    int64  // the newest that it knows
	leads   bool   // it believes that it is primary
	leader  string // whom it takes for primary; "" is nobody
	version int64  // counts the changes of these three

	latest    *image
	committed *image // the newest of which it knows that a majority has it

	began    time.Time // by its clock
	lifetime time.Duration
	open     *store.Open
	sessions map[string]*transaction // the newest that it has begun of each session; a router: has seen
	busy     map[string]*store.Call  // what waits in a session
}

func newMember(name string, empty *image) *member {
	return &member{
		name: name, latest: empty, committed: empty,
		began: time.Now(), lifetime: time.Minute, open: &store.Open{}, sessions: map[string]*transaction{}, busy: map[string]*store.Call{},
	}
}

// now is the member's clock.
func (m *member) now() time.Time { return time.Now().Add(m.ahead) }

// learn is what a member hears of an election.
func (m *member) learn(term int64, leader string) {
	if m.term != term || m.leader != leader {
		m.version++
		m.open, m.sessions, m.busy = &store.Open{}, map[string]*transaction{}, map[string]*store.Call{} // they end with the primary
	}
	m.term, m.leader, m.leads = term, leader, leader == m.name
}

// point is a place in the history of the members. Each term has one primary, which
// adds to the history.
type point struct{ term, index int64 }

// image is what a member has stored at a point. It never changes.
type image struct {
	at    point
	terms []point // the first point of each term
	store *store.Store
	first map[string]first // the last write of each session that may be repeated
}

// first is a write, or a transaction's commit, and its reply, which a repeat gets too.
type first struct {
	number int64
	at     point
	reply  bson.RawValue // missing while it waits
	far    store.Progress
	commit bool
}

// has reports whether a point is in the image's history.
func (i *image) has(at point) bool {
	var term int64
	for _, began := range i.terms {
		if began.index <= at.index {
			term = began.term
		}
	}
	return at.index <= i.at.index && at.term == term
}

// did is the image with a session's last write.
func (i *image) did(session string, last first) {
	i.first = maps.Clone(i.first)
	last.at = i.at
	i.first[session] = last
}

// next is an image of the same documents, one point later.
func (i *image) next(term int64) *image {
	next := *i
	next.at = point{term, i.at.index + 1}
	if term != i.at.term {
		next.terms = append(slices.Clone(i.terms), next.at)
	}
	return &next
}

// replicate brings all members that reach each other to the state of the newest
// primary among them. What a majority then has is committed. Writes that the primary
// doesn't have are rolled back. It needs the mutex.
func (s *Server) replicate() {
	if s.topology == sharded {
		s.stored.committed = s.stored.latest
		return
	}
	var primary *member
	reached := s.reached()
	for _, m := range reached {
		if m.leads && (primary == nil || m.term > primary.term) {
			primary = m
		}
	}
	if primary == nil {
		return
	}
	for _, m := range reached {
		m.learn(primary.term, primary.name)
		if !primary.latest.has(m.latest.at) {
			s.hangUpAll(func(conn *conn) bool { return conn.to == m }) // as a member does before a rollback
		}
		m.latest = primary.latest
		if len(reached) >= majority {
			m.committed = primary.latest
		}
	}
}

// elect has the members that reach each other elect the one whose state is the
// newest; if several have it, then another one than before. It needs the mutex.
func (s *Server) elect(before *member) {
	reached := s.reached()
	if len(reached) < majority {
		return
	}
	slices.SortStableFunc(reached, func(a, b *member) int { return compare(b.latest.at, a.latest.at) })
	elected := reached[0]
	if second := reached[1]; elected == before && second.latest.at == elected.latest.at {
		elected = second
	}
	s.term++
	elected.learn(s.term, elected.name)
	elected.latest = elected.latest.next(s.term)
	s.replicate()
}

func compare(a, b point) int {
	return cmp.Or(cmp.Compare(a.term, b.term), cmp.Compare(a.index, b.index))
}

// reached are the members that reach each other.
func (s *Server) reached() []*member {
	return slices.DeleteFunc(slices.Clone(s.members), func(m *member) bool { return m.isolated })
}

// copies are how many members have a point, as far as m knows.
func (s *Server) copies(m *member, at point) (n int) {
	for _, other := range s.members {
		if (other == m || !m.isolated && !other.isolated) && other.latest.has(at) {
			n++
		}
	}
	if m.committed.has(at) {
		return max(n, majority)
	}
	return n
}
