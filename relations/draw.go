package relations

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Matrix draws the rules as aligned text, for a terminal or a comment. Each row
// is a tag that arrives, each column a tag that is there, and "-" is no relation.
// A "∞" is at the relations that can keep a lock out for ever: the first step of
// the Path of each of the [Rules.Starvations], whose time it takes. Tags are sorted;
// relations to unknown tags are left out.
//
//	         read         write
//	read     -            cooperative ∞
//	write    assertive    cooperative ∞
func (r Rules) Matrix() string {
	tags, endless := r.Tags(), r.endless()
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 4, ' ', 0)
	for _, y := range tags {
		fmt.Fprintf(w, "\t%s", printable(y))
	}
	fmt.Fprintln(w)
	for _, x := range tags {
		fmt.Fprint(w, printable(x))
		for _, y := range tags {
			cell := "-"
			if r[x][y].Kind != None {
				cell = endless.label(r, x, y)
			}
			fmt.Fprintf(w, "\t%s", cell)
		}
		fmt.Fprintln(w)
	}
	w.Flush() // a strings.Builder returns no error
	return b.String()
}

// endless has the pairs of tags of which the first can be kept out for ever by its
// relation to the second.
type endless map[[2]string]bool

func (r Rules) endless() endless {
	pairs := endless{}
	for _, s := range r.Starvations() {
		pairs[[2]string{s.Tag, s.Path[1]}] = true
	}
	return pairs
}

// label is x's relation to y, as the matrix writes it.
func (e endless) label(r Rules, x, y string) string {
	if e[[2]string{x, y}] {
		return r[x][y].String() + " ∞"
	}
	return r[x][y].String()
}
