package history

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A report of a violation has the lines of the document's transcript that are
// nearest to it. The whole transcript is in a file.
const (
	linesBefore = 120
	linesAfter  = 60
)

// transcribed is one line of a transcript: an operation, or a command and its image.
type transcribed struct {
	from, to int64 // on the server's clock
	text     string
}

// violation is one that was seen at an instant of the server's clock.
type violation struct {
	at             int64
	property, text string
}

func (c *check) violated(at int64, property, format string, args ...any) {
	c.violations = append(c.violations, violation{at, property, fmt.Sprintf(format, args...)})
}

// report counts the violations. The first one prints what happened around it.
func (c *check) report() {
	for i, v := range c.violations {
		if i == 0 {
			v.text += "\n" + c.around(v.at)
		}
		c.Violated(v.property, "document %s (%s): %s", c.ID, c.Name, v.text)
	}
}

// Transcript has all that is known of a document: a line for each call and each command
// with its image, in the order of their begin.
func (h *History) Transcript(document string) string {
	i := slices.IndexFunc(h.Documents, func(d Document) bool { return d.ID == document })
	return newCheck(h, h.Documents[i], h.clocksOf(), nil).whole()
}

func (c *check) whole() string {
	var b strings.Builder
	fmt.Fprintf(&b, "document %s (%s), TTL %d ms, wait TTL %d ms, tolerance %d ms, rules %v\n", c.ID, c.Name, c.TTL, c.WaitTTL, c.Tolerance, c.Rules)
	lines, begin := c.transcript()
	for _, l := range lines {
		fmt.Fprintln(&b, l.show(begin))
	}
	return b.String()
}

func (c *check) around(at int64) string {
	lines, begin := c.transcript()
	if len(lines) == 0 {
		return "nothing is recorded of this document"
	}
	middle, _ := slices.BinarySearchFunc(lines, at, func(l transcribed, at int64) int { return cmp.Compare(l.from, at) })
	first, last := max(0, middle-linesBefore), min(len(lines), middle+linesAfter)
	var b strings.Builder
	h := &History{Documents: []Document{c.Document}, Operations: c.operations, Apart: c.apart}
	for _, command := range c.commands {
		h.Commands = append(h.Commands, *command)
	}
	fmt.Fprintf(&b, "lines %d to %d of %d, in seconds from %d on the server's clock; all of them: %s\n", first+1, last, len(lines), begin/millisecond, h.Keep())
	for i, l := range lines[first:last] {
		if first+i == middle {
			fmt.Fprintf(&b, "%s ---- the violation ----\n", instant(at, begin))
		}
		fmt.Fprintln(&b, l.show(begin))
	}
	return b.String()
}

func (l transcribed) show(begin int64) string {
	return fmt.Sprintf("%s %s %s", instant(l.from, begin), instant(l.to, begin), l.text)
}

// instant is a time as a transcript has it, in seconds.
func instant(at, begin int64) string {
	if at == never || at == forever { // that of a process whose clock isn't known, or of no answer
		return "        …"
	}
	return fmt.Sprintf("%9.3f", seconds(at-begin))
}

func seconds(ns int64) float64 { return time.Duration(ns).Seconds() }

// transcript has what is known of the document, in the order of its begin, and the first instant that is known.
func (c *check) transcript() (lines []transcribed, begin int64) {
	for _, o := range c.operations {
		clock := c.clocks[o.Process]
		l := transcribed{clock.earliest(o.Call), never, o.text()}
		if o.Return != 0 {
			l.to = clock.latest(o.Return)
		}
		lines = append(lines, l)
	}
	for _, command := range c.commands {
		lines = append(lines, transcribed{c.sent(command), c.answered(command), command.text()})
	}
	slices.SortStableFunc(lines, func(a, b transcribed) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.to, b.to))
	})
	if i := slices.IndexFunc(lines, func(l transcribed) bool { return l.from != forever }); i >= 0 {
		begin = lines[i].from
	}
	return lines, begin
}

// words joins those that are not empty.
func words(all ...string) string {
	return strings.Join(slices.DeleteFunc(all, func(s string) bool { return s == "" }), " ")
}

// given is a value as the format has it, or empty for the zero value.
func given[T comparable](format string, value T) string {
	if value == *new(T) {
		return ""
	}
	return fmt.Sprintf(format, value)
}

// text is an operation as a transcript has it.
func (o *Operation) text() string {
	var valid string
	if o.Kind == Look {
		valid = fmt.Sprintf("for %.3f s", seconds(o.Remaining))
	}
	return words(fmt.Sprintf("p%d.%d CALL %s", o.Process, o.Client, o.Kind), name(o.Tag, o.ID, o.Fence),
		given("TTL %d ms", o.TTL), given("at least %d ms", o.Least), o.Write, "=", cmp.Or(o.Outcome, "never returned"), valid, given("(%.160s)", o.Error))
}

// text is a command as a transcript has it, with its image.
func (c *Command) text() string {
	what := words(fmt.Sprintf("p%d      %s", c.Process, c.Kind), name(c.Tag, c.ID, c.Fence),
		given("of %s", c.Owner), given("from %s", abbreviated(c.From)), given("key %s", abbreviated(c.Key)), c.Write,
		either(c.Ghost, "(the server may execute it late or twice)", ""), either(c.Handed, "(handed over)", ""), either(c.Inherits, "(in the holder's place)", ""), "=")
	switch {
	case c.Answered == 0:
		return what + " no answer"
	case c.Own != nil:
		return what + " removed " + c.Own.text(0)
	case c.Image == nil:
		return what + either(c.Matched, " found", " not found")
	}
	what += fmt.Sprintf(" at %d.%03d, fence %s:", c.Image.Now/1000%1000, c.Image.Now%1000, short(c.Image.Fence))
	for _, e := range c.Image.Entries {
		what += fmt.Sprintf(" [%s]", e.text(c.Image.Now))
	}
	return what + either(len(c.Image.Entries) == 0, " free", "")
}

// text is an entry as a transcript has it, with the rest of its life.
func (e *Entry) text(now int64) string {
	text := words(name(e.Tag, e.ID, e.Fence), either(e.Fence == 0, "waits", ""), either(e.Seq != e.Fence, "seq "+short(e.Seq), ""), given("key %s", abbreviated(e.Key)))
	if now != 0 {
		text += fmt.Sprintf(" %+d ms", e.Expires-now) + either(e.Until != 0, fmt.Sprintf(", until %+d ms", e.Until-now), "")
	}
	return text
}

// name is that of an entry, with the last digits of its fence.
func name(tag, id string, fence int64) string { return words(tag, abbreviated(id), short(fence)) }

func abbreviated(id string) string { return id[:min(8, len(id))] }

// short is the end of a fence, whose beginning is the time.
func short(fence int64) string {
	if fence == 0 {
		return ""
	}
	text := fmt.Sprint(fence)
	return "…" + text[max(0, len(text)-7):]
}

// The histories of failed proofs stay in a directory of the system's temporary one: the
// newest few.
const (
	keptIn   = "doclock-histories"
	mostKept = 40
)

// Keep writes the history, and a transcript of each document, to a directory that stays, and says which, or what went
// wrong.
func (h *History) Keep() string {
	all := filepath.Join(os.TempDir(), keptIn)
	_ = os.MkdirAll(all, 0o755) // else the next fails
	forget(all)
	where, err := os.MkdirTemp(all, "")
	if err != nil {
		return err.Error()
	}
	var lines bytes.Buffer
	err = cmp.Or(h.Encode(&lines), os.WriteFile(filepath.Join(where, "history.jsonl"), lines.Bytes(), 0o644))
	for _, d := range h.Documents {
		err = cmp.Or(err, os.WriteFile(filepath.Join(where, filepath.Base(d.ID)+".txt"), []byte(h.Transcript(d.ID)), 0o644))
	}
	if err != nil {
		return err.Error()
	}
	return where
}

// forget removes all but the newest directories.
func forget(all string) {
	entries, _ := os.ReadDir(all)
	age := map[string]int64{}
	for _, e := range entries {
		if info, err := e.Info(); err == nil {
			age[e.Name()] = -info.ModTime().UnixNano()
		}
	}
	slices.SortFunc(entries, func(a, b os.DirEntry) int { return cmp.Compare(age[a.Name()], age[b.Name()]) })
	for _, e := range entries[min(len(entries), mostKept-1):] {
		_ = os.RemoveAll(filepath.Join(all, e.Name()))
	}
}
