package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A printer prints for people what happens while it happens: results to one writer, and the progress to another one. Both may be
// the same terminal.
type printer struct {
	out, live io.Writer
	terminal  bool // live is a terminal: a line of progress can be overwritten

	mu    sync.Mutex
	dirty bool // the terminal's last line is progress, and is to be overwritten
}

func newPrinter(out, live io.Writer) *printer {
	file, ok := live.(*os.File)
	if !ok {
		return &printer{out: out, live: live}
	}
	info, err := file.Stat()
	return &printer{out: out, live: live, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (p *printer) print(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wipe()
	// The program goes on if a line can't be printed.
	_, _ = fmt.Fprintf(p.out, format+"\n", args...)
}

// wipe removes the line of progress. The caller holds p.mu.
func (p *printer) wipe() {
	if p.dirty {
		_, _ = fmt.Fprint(p.live, "\r\x1b[K")
		p.dirty = false
	}
}

// progress returns a function that prints the counts of a run: ten times a second on a terminal, once a second elsewhere.
func (p *printer) progress() func(Counts) {
	began := time.Now()
	every := time.Second
	if p.terminal {
		every = 100 * time.Millisecond
	}
	last := began
	return func(c Counts) {
		p.mu.Lock()
		defer p.mu.Unlock()
		if time.Since(last) < every {
			return
		}
		last = time.Now()
		p.wipe()
		_, _ = fmt.Fprintf(p.live, "   %4.1f s: %d put on contacts, %d categories deleted, %d conflicts",
			time.Since(began).Seconds(), c.Added, c.Deleted, c.Conflicts)
		if p.terminal {
			p.dirty = true
		} else {
			_, _ = fmt.Fprintln(p.live)
		}
	}
}

func (p *printer) introduce(r report) {
	p.print(`An address book that several processes change at the same time: %d contacts and %d categories, on %s.

Adders look a category up, work for %s, and put its id on a contact.
Deleters take a category's id off all contacts, and delete it; then they create one of the same name with a new id.
The race: if a deleter runs between an adder's look and its write, the contact has the id of a deleted category,
a dangling reference.

%d processes with %d adders and %d deleters each do the same work twice.`,
		r.Contacts, r.Categories, r.Server, r.Work, r.Processes, r.Adders, r.Deleters)
}

func (p *printer) title(text string) { p.print("\n%s", text) }

func (p *printer) note(format string, args ...any) { p.print("   "+format, args...) }

func (p *printer) result(r result) {
	p.note("%d operations in %.1f s. A full scan finds %s.", r.Operations, r.Seconds, r.summary())
	if r.Example != "" {
		p.note("For example: %s.", r.Example)
	}
}

func (p *printer) logEntry(e logEntry) { p.note("%5.3f s  %-9s  %s", e.Seconds, e.Who, e.What) }

func (p *printer) conclude(r report) {
	p.print("")
	p.mu.Lock()
	r.writeTable(p.out)
	p.mu.Unlock()
	p.print("\n%s", r.verdict())
}
