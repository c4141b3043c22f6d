package relations

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Matrix draws the rules as aligned text, for a terminal or a comment. Each row
// is a tag, each column another tag, and "-" is no relation. Tags are sorted;
// relations to unknown tags are left out.
//
//	         read         write
//	read     -            cooperative
//	write    assertive    cooperative
func (r Rules) Matrix() string {
	tags := r.Tags()
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
			if rel := r[x][y]; rel.Kind != None {
				cell = rel.String()
			}
			fmt.Fprintf(w, "\t%s", cell)
		}
		fmt.Fprintln(w)
	}
	w.Flush() // a strings.Builder returns no error
	return b.String()
}

// Mermaid draws the rules as a graph in the Mermaid language, which GitHub and
// many editors display. A dotted arrow is cooperative, a thick one assertive.
// Tags are sorted; relations to unknown tags are left out.
//
//	graph LR
//	    t0["read"]
//	    t1["write"]
//	    t0 -.->|"cooperative"| t1
//	    t1 ==>|"assertive"| t0
//	    t1 -.->|"cooperative"| t1
func (r Rules) Mermaid() string {
	tags := r.Tags()
	var b strings.Builder
	b.WriteString("graph LR\n")
	for i, tag := range tags {
		// Tags are labels, not the names of nodes: "end" would be a keyword.
		label := strings.ReplaceAll(printable(tag), `"`, "#quot;")
		fmt.Fprintf(&b, "    t%d[\"%s\"]\n", i, label)
	}
	for i, x := range tags {
		for j, y := range tags {
			rel := r[x][y]
			if rel.Kind == None {
				continue
			}
			arrow := "-.->"
			if rel.Kind.Arriving() == Blocked {
				arrow = "==>"
			}
			fmt.Fprintf(&b, "    t%d %s|\"%v\"| t%d\n", i, arrow, rel, j)
		}
	}
	return b.String()
}
