package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// A narrator tells a person what happens, while it happens: the story on one writer, and how far it is on another, which may
// be the same terminal.
type narrator struct {
	out, live io.Writer
	terminal  bool // live is one: a line can be written over

	mu    sync.Mutex
	dirty bool // the terminal's last line is to be written over
}

func newNarrator(out, live io.Writer) *narrator {
	file, ok := live.(*os.File)
	if !ok {
		return &narrator{out: out, live: live}
	}
	info, err := file.Stat()
	return &narrator{out: out, live: live, terminal: err == nil && info.Mode()&os.ModeCharDevice != 0}
}

func (n *narrator) say(format string, args ...any) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wipe()
	// Nobody is worse off without a line of the story than with a failure because of one.
	_, _ = fmt.Fprintf(n.out, format+"\n", args...)
}

// wipe needs n.mu.
func (n *narrator) wipe() {
	if n.dirty {
		_, _ = fmt.Fprint(n.live, "\r\x1b[K")
		n.dirty = false
	}
}

// progress shows the counts of one run: ten times a second on a terminal, and every second elsewhere.
func (n *narrator) progress() func(Counts) {
	began := time.Now()
	every := time.Second
	if n.terminal {
		every = 100 * time.Millisecond
	}
	last := began
	return func(c Counts) {
		n.mu.Lock()
		defer n.mu.Unlock()
		if time.Since(last) < every {
			return
		}
		last = time.Now()
		n.wipe()
		_, _ = fmt.Fprintf(n.live, "   %4.1f s: %d put on contacts, %d categories deleted, %d conflicts",
			time.Since(began).Seconds(), c.Added, c.Deleted, c.Conflicts)
		if n.terminal {
			n.dirty = true
		} else {
			_, _ = fmt.Fprintln(n.live)
		}
	}
}

func (n *narrator) introduce(r report) {
	n.say(`An address book under many hands: %d contacts and %d categories, on %s.

Adders look a category up, work for %s, and put its id on a contact.
Deleters take a category's id off all contacts, and delete it; then they create one of the same name with a new id.
The race: a deleter that comes between an adder's look and its write leaves a contact with the id of a category
that is no more, a dangling reference.

%d processes with %d adders and %d deleters each do the same work twice.`,
		r.Contacts, r.Categories, r.Server, r.Work, r.Processes, r.Adders, r.Deleters)
}

func (n *narrator) title(text string) { n.say("\n%s", text) }

func (n *narrator) note(format string, args ...any) { n.say("   "+format, args...) }

func (n *narrator) result(r result) {
	n.note("%d operations in %.1f s. A full scan finds %s.", r.Operations, r.Seconds, r.dangling())
	if r.Example != "" {
		n.note("For example: %s.", r.Example)
	}
}

func (n *narrator) line(l line) { n.note("%5.3f s  %-9s  %s", l.Seconds, l.Who, l.What) }

func (n *narrator) conclude(r report) {
	n.say("")
	n.mu.Lock()
	r.writeTable(n.out)
	n.mu.Unlock()
	n.say("\n%s", r.verdict())
}
