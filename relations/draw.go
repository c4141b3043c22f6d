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
	tags, endless := r.Tags(), map[[2]string]bool{}
	for _, s := range r.Starvations() {
		endless[[2]string{s.Tag, s.Path[1]}] = true
	}
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
				cell = r[x][y].String()
			}
			if endless[[2]string{x, y}] {
				cell += " ∞"
			}
			fmt.Fprintf(w, "\t%s", cell)
		}
		fmt.Fprintln(w)
	}
	w.Flush() // a strings.Builder returns no error
	return b.String()
}
