package relations

import (
	"fmt"
	"slices"
)

// Asymmetry is a pair of tags of which only one respects the other. A held Tag does
// not block IgnoredBy, but a held IgnoredBy blocks Tag. So the two can be held
// together in one order of arrival, and not in the other. This may be intended;
// rules in monglock need not be symmetric either.
type Asymmetry struct {
	Tag       string // has a relation to IgnoredBy
	IgnoredBy string // has none to Tag
}

// String describes the asymmetry in a sentence.
func (a Asymmetry) String() string {
	return fmt.Sprintf("%q respects %q, but %[2]q ignores %[1]q: a held %[1]q does not keep %[2]q out",
		a.Tag, a.IgnoredBy)
}

// Asymmetries returns every asymmetry of valid rules, sorted by Tag, then by
// IgnoredBy.
func (r Rules) Asymmetries() []Asymmetry {
	var found []Asymmetry
	for _, x := range r.Tags() {
		for _, y := range r.Tags() {
			if r[x][y].Kind != None && r[y][x].Kind == None {
				found = append(found, Asymmetry{Tag: x, IgnoredBy: y})
			}
		}
	}
	return found
}

// Starvation describes a tag whose lock may never be granted, although every holder
// releases in the end and everybody goes on asking: locks of another tag can be
// granted past it without end. It says that this can happen, not that it will.
type Starvation struct {
	Tag string // the tag that can starve
	By  string // the tag whose locks come and go in the meantime

	// Waiting distinguishes the two ways. If it is true, Tag starves as a
	// waiting entry, which By overtakes. If it is false, Tag starves as a
	// requester: each arrival is refused, because Tag is cooperative with By.
	Waiting bool

	// Path is the chain of tags from Tag to By, each one blocked by the next.
	// The tags between the two are waiting entries that starve with Tag.
	Path []string
}

// String describes in a sentence who can starve, and how.
func (s Starvation) String() string {
	if !s.Waiting {
		return fmt.Sprintf("%q can be refused for ever: each time it asks, another %q may be there", s.Tag, s.By)
	}
	way, past := fmt.Sprintf("it waits for %q", s.Path[1]), "it"
	for _, tag := range s.Path[2:] {
		way, past = fmt.Sprintf("%s, which waits for %q", way, tag), "them all"
	}
	return fmt.Sprintf("%q can wait for ever: %s, which is let in past %s", s.Tag, way, past)
}

// Starvations returns all starvations of valid rules: those of a tag that is refused
// and asks again, and those of a waiting entry. They are sorted by Tag, then By,
// refusal before overtaking; each appears once, with a shortest path. Rules without
// a starvation are fair: everybody who asks gets the lock in the end.
//
// The answer is exact: it agrees with a search of all states that locks under these
// rules can reach. The time can grow exponentially with the number of assertive
// tags.
func (r Rules) Starvations() []Starvation {
	var found []Starvation
	for _, x := range r.Tags() {
		for _, z := range r.Tags() {
			if r[x][z].Kind.Arriving() == Refused && r.canStandInTheWay(x, z) {
				found = append(found, Starvation{Tag: x, By: z, Path: []string{x, z}})
			}
			if path := r.shortestOvertaking(x, z); path != nil {
				found = append(found, Starvation{Tag: x, By: z, Waiting: true, Path: path})
			}
		}
	}
	return found
}

// canStandInTheWay reports whether so many entries of y can be live at once
// that x's relation to y has an effect. The number is limited only for a tag
// that is cooperative with itself: entries of any other tag can at least wait.
func (r Rules) canStandInTheWay(x, y string) bool {
	self := r[y][y]
	return self.Kind.Arriving() != Refused || self.Allow >= r[x][y].Allow
}

// canWait reports whether an entry of x can be a waiting one.
func (r Rules) canWait(x string) bool {
	for y, rel := range r[x] {
		if rel.Kind.Arriving() == Blocked && r.canStandInTheWay(x, y) {
			return true
		}
	}
	return false
}

// ignores reports whether x tolerates n live entries of y.
func (r Rules) ignores(x, y string, n int) bool {
	rel := r[x][y]
	return rel.Kind.Arriving() == Ignored || rel.Allow >= n
}

// A queue is a list of waiting entries that never move, the last arrived first.
// Each tag waits for the next one, because there are more entries of the next
// one than it tolerates.
type queue []crowd

// A crowd is a number of waiting entries of one tag.
type crowd struct {
	tag string
	n   int
}

// shortestOvertaking returns a shortest path, from x to z, on which z overtakes
// a waiting x for ever; nil if there is none.
func (r Rules) shortestOvertaking(x, z string) []string {
	first := crowd{tag: x, n: 1}
	if x == z || !r.ignores(z, x, first.n) {
		return nil
	}
	for length := 1; length < len(r); length++ {
		if q := r.findQueue(queue{first}, z, length); q != nil {
			path := make([]string, 0, length+1)
			for _, c := range q {
				path = append(path, c.tag)
			}
			return append(path, z)
		}
	}
	return nil
}

// findQueue extends q to a queue of the given length whose last crowd is
// blocked by entries of z that come and go; nil if there is none.
func (r Rules) findQueue(q queue, z string, length int) queue {
	last := q[len(q)-1].tag
	if len(q) == length {
		if r.keepsWaiting(z, last) {
			return q
		}
		return nil
	}
	for _, y := range r.Tags() {
		rel := r[last][y]
		next := crowd{tag: y, n: rel.Allow + 1}
		if rel.Kind.Arriving() != Blocked || y == z || !r.canQueueBefore(q, next) || !r.ignores(z, y, next.n) {
			continue
		}
		if found := r.findQueue(append(slices.Clip(q), next), z, length); found != nil {
			return found
		}
	}
	return nil
}

// canQueueBefore reports whether next can be waiting already when the crowds of
// q arrive: so many entries of it can be live, its tag is new in the queue, and
// it causes no refusal of a crowd of q.
func (r Rules) canQueueBefore(q queue, next crowd) bool {
	self := r[next.tag][next.tag]
	if self.Kind.Arriving() == Refused && self.Allow+1 < next.n {
		return false
	}
	return !slices.ContainsFunc(q, func(c crowd) bool {
		rel := r[c.tag][next.tag]
		return c.tag == next.tag || rel.Kind.Arriving() == Refused && rel.Allow < next.n
	})
}

// keepsWaiting reports whether entries of z, granted one after the other, can
// be so many at once that a waiting y is blocked whenever it asks.
func (r Rules) keepsWaiting(z, y string) bool {
	rel := r[y][z]
	switch {
	case rel.Kind.Waiting() == Ignored:
		return false
	case rel.Kind.Arriving() == Refused && !r.canWait(y):
		// The entries that are there when y arrives refuse it: y must have begun to
		// wait for another tag.
		return false
	}
	return r.ignores(z, z, rel.Allow)
}
