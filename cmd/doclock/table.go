package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// table writes rows as they come. The widths of its columns are those of the
// first rows, which it keeps back for a moment. A later row with a longer cell is
// longer itself. So memory doesn't grow with the rows, and the first ones aren't
// late.
type table struct {
	mu       sync.Mutex
	w        io.Writer
	colour   bool
	head     []string
	widths   []int
	kept     []row
	begun    bool // the head was written, and the widths stay
	deadline *time.Timer
	err      error // of a write
}

type row struct {
	cells []string
	style style
}

// keep is the number of rows that decide the widths, and keepFor how long the
// first of them waits for the others at most.
const (
	keep    = 100
	keepFor = 100 * time.Millisecond
)

func newTable(w io.Writer, head ...string) *table {
	return &table{w: w, colour: colours(w), head: head}
}

// add writes a row, soon. It returns the first error of a write.
func (t *table) add(s style, cells ...string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.begun {
		t.write(row{cells, s})
		return t.err
	}
	t.kept = append(t.kept, row{cells, s})
	switch len(t.kept) {
	case 1:
		t.deadline = time.AfterFunc(keepFor, func() { _ = t.flush() })
	case keep:
		t.begin()
	}
	return t.err
}

// flush writes the rows that were kept back.
func (t *table) flush() error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.deadline != nil {
		t.deadline.Stop()
	}
	if !t.begun && len(t.kept) > 0 {
		t.begin()
	}
	return t.err
}

func (t *table) begin() {
	t.begun = true
	t.widths = make([]int, len(t.head))
	for _, r := range append([]row{{t.head, bold}}, t.kept...) {
		for i, c := range r.cells {
			t.widths[i] = max(t.widths[i], utf8.RuneCountInString(c))
		}
	}
	t.write(row{t.head, bold})
	for _, r := range t.kept {
		t.write(r)
	}
	t.kept = nil
}

func (t *table) write(r row) {
	if t.err == nil {
		_, t.err = fmt.Fprintln(t.w, styled(t.colour, r.style, line(r.cells, t.widths)))
	}
}

// line is a row with its cells in columns.
func line(cells []string, widths []int) string {
	var b strings.Builder
	for i, c := range cells {
		b.WriteString(c)
		if i < len(cells)-1 {
			b.WriteString(strings.Repeat(" ", max(0, widths[i]-utf8.RuneCountInString(c))+2))
		}
	}
	return b.String()
}
