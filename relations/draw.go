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

// Mermaid draws the rules as a graph in the Mermaid language, which GitHub and
// many editors display. A dotted arrow is cooperative, a thick one assertive. Two
// tags with the same relation to each other have one arrow with two heads. A "∞"
// means what it means in Matrix. Tags are sorted; relations to unknown tags are
// left out.
//
//	graph LR
//	    t0["read"]
//	    t1["write"]
//	    t0 -.->|"cooperative ∞"| t1
//	    t1 ==>|"assertive"| t0
//	    t1 -.->|"cooperative ∞"| t1
func (r Rules) Mermaid() string {
	tags, endless := r.Tags(), r.endless()
	var b strings.Builder
	b.WriteString("graph LR\n")
	for i, tag := range tags {
		// Tags are labels, not the names of nodes: "end" would be a keyword.
		label := strings.ReplaceAll(printable(tag), `"`, "#quot;")
		fmt.Fprintf(&b, "    t%d[\"%s\"]\n", i, label)
	}
	for i, x := range tags {
		for j, y := range tags {
			label := endless.label(r, x, y)
			mutual := i != j && label == endless.label(r, y, x)
			if r[x][y].Kind == None || mutual && j < i {
				continue
			}
			arrow := "-.->"
			if r[x][y].Kind.Arriving() == Blocked {
				arrow = "==>"
			}
			if mutual {
				arrow = "<" + arrow
			}
			fmt.Fprintf(&b, "    t%d %s|\"%s\"| t%d\n", i, arrow, label, j)
		}
	}
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

// label is x's relation to y, as the drawings write it.
func (e endless) label(r Rules, x, y string) string {
	if e[[2]string{x, y}] {
		return r[x][y].String() + " ∞"
	}
	return r[x][y].String()
}
