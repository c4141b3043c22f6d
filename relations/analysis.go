package relations

import (
	"fmt"
	"slices"
	"strings"
)

// Asymmetry is a pair of tags of which only one respects the other: a held
// Tag does not keep IgnoredBy out, though a held IgnoredBy stands in the way
// of Tag. It may be meant so (a table of monglock's needn't be symmetric), but
// two locks can then hold together that could not have come in the other
// order.
type Asymmetry struct {
	Tag       string // has a relation to IgnoredBy
	IgnoredBy string // has none to Tag
}

// String says in a sentence what the asymmetry means.
func (a Asymmetry) String() string {
	return fmt.Sprintf("%q respects %q, but %[2]q ignores %[1]q: a held %[1]q does not keep %[2]q out",
		a.Tag, a.IgnoredBy)
}

// Asymmetries returns every asymmetry of the table, sorted by Tag, then by
// IgnoredBy. It means something for valid tables only.
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

// Starvation says that a lock of one tag may never be had, though every holder
// releases in the end and everybody goes on asking: locks of another tag can
// be let in past it without end. That they can does not mean that they will.
type Starvation struct {
	Tag string // who can starve
	By  string // whose locks come and go meanwhile

	// Waiting tells the two ways apart. If it is true, Tag starves as a
	// waiting entry, which By overtakes. If it is false, Tag starves as a
	// requester, refused on each arrival because it is cooperative with By.
	Waiting bool

	// Path is who stands in whose way, from Tag to By. Those between the two
	// are waiting entries that starve with Tag.
	Path []string
}

// String says in a sentence who can starve, and how.
func (s Starvation) String() string {
	if !s.Waiting {
		return fmt.Sprintf("%q can be refused for ever: each time it asks, another %q may be there", s.Tag, s.By)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%q can wait for ever: ", s.Tag)
	for i, tag := range s.Path[1:] {
		if i == 0 {
			fmt.Fprintf(&b, "it waits for %q", tag)
		} else {
			fmt.Fprintf(&b, ", which waits for %q", tag)
		}
	}
	b.WriteString(", which is let in past ")
	if len(s.Path) == 2 {
		b.WriteString("it")
	} else {
		b.WriteString("them all")
	}
	return b.String()
}

// Starvations returns who can starve, as a requester and as a waiting entry,
// and by whom: sorted by Tag, then By, refusal before overtaking, each once
// and with a shortest path. A table with none is fair: everybody gets the lock
// in the end.
//
// The answer is exact, not a guess: it agrees with a search of the states that
// locks under the table can reach. It means something for valid tables only.
// The time can grow exponentially with the number of assertive tags.
func (r Rules) Starvations() []Starvation {
	var found []Starvation
	for _, x := range r.Tags() {
		for _, z := range r.Tags() {
			if r[x][z].Kind == Cooperative && r.canStandInTheWay(x, z) {
				found = append(found, Starvation{Tag: x, By: z, Path: []string{x, z}})
			}
			if path := r.shortestOvertaking(x, z); path != nil {
				found = append(found, Starvation{Tag: x, By: z, Waiting: true, Path: path})
			}
		}
	}
	return found
}

// canStandInTheWay says whether so many entries of y can be live at once that
// x's relation to y has an effect. Only a tag that is cooperative with itself
// is limited in number: the entries of any other can at least wait.
func (r Rules) canStandInTheWay(x, y string) bool {
	self := r[y][y]
	return self.Kind != Cooperative || self.Allow >= r[x][y].Allow
}

// canWait says whether an entry of x can be a waiting one.
func (r Rules) canWait(x string) bool {
	for y, rel := range r[x] {
		if rel.Kind == Assertive && r.canStandInTheWay(x, y) {
			return true
		}
	}
	return false
}

// ignores says whether n live entries of y are nothing to x.
func (r Rules) ignores(x, y string, n int) bool {
	rel := r[x][y]
	return rel.Kind == None || rel.Allow >= n
}

// A queue is a row of waiting entries that never move, the last arrived first:
// each tag waits for the next, because as many entries of it are there as the
// one before does not tolerate.
type queue []crowd

// A crowd is a number of waiting entries of one tag.
type crowd struct {
	tag string
	n   int
}

// shortestOvertaking returns a shortest path on which a waiting x is overtaken
// by z for ever, from x to z; nil if there is none.
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

// findQueue extends q to a queue of the given length whose last crowd is kept
// waiting by entries of z that come and go; nil if there is none.
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
		if rel.Kind != Assertive || y == z || !r.canQueueBefore(q, next) || !r.ignores(z, y, next.n) {
			continue
		}
		if found := r.findQueue(append(slices.Clip(q), next), z, length); found != nil {
			return found
		}
	}
	return nil
}

// canQueueBefore says whether next can be waiting already when the crowds of q
// arrive: it can be that many, it is of a new tag, and it makes none of q be
// refused.
func (r Rules) canQueueBefore(q queue, next crowd) bool {
	self := r[next.tag][next.tag]
	if self.Kind == Cooperative && self.Allow+1 < next.n {
		return false
	}
	for _, c := range q {
		if c.tag == next.tag {
			return false
		}
		if rel := r[c.tag][next.tag]; rel.Kind == Cooperative && rel.Allow < next.n {
			return false
		}
	}
	return true
}

// keepsWaiting says whether entries of z, let in one after the other, can be
// so many at once that a waiting y is blocked whenever it asks.
func (r Rules) keepsWaiting(z, y string) bool {
	rel := r[y][z]
	switch rel.Kind {
	case Assertive:
	case Cooperative:
		// Those who are there when y arrives would refuse it, so it must
		// have begun to wait for somebody else.
		if !r.canWait(y) {
			return false
		}
	default:
		return false
	}
	return r.ignores(z, z, rel.Allow)
}
