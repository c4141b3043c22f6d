// Package byhand reads histories of one document that are written by hand, for the tests of
// their checkers.
package byhand

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"
	"unicode"

	"github.com/doclock/doclock/proptest/history"
)

// Story is a history that a property refuses, and a similar one that it accepts.
type Story struct {
	Name, Property    string // the begin of the property
	Refused, Accepted *history.History
}

func (s Story) IsOf(property string) bool { return strings.HasPrefix(property, s.Property) }

// Stories reads some. A property stands after ##, and the name of a story after #. Lines with a
// minus are of the history that is refused, those with a plus of the other one, all others of
// both.
func Stories(text string) (all []Story) {
	property := ""
	for _, line := range strings.Split(text, "\n") {
		sign, rest, _ := strings.Cut(line, " ")
		switch {
		case line == "":
		case sign == "##":
			property = rest
		case sign == "#":
			all = append(all, Story{rest, property, History(), History()})
		default:
			last := all[len(all)-1]
			if sign != "+" {
				tell(last.Refused, rest)
			}
			if sign != "-" {
				tell(last.Accepted, rest)
			}
		}
	}
	return all
}

// History is told by these lines. Times are milliseconds. A first read says that the process's
// clock is the server's, with an error of a millisecond.
func History(lines ...string) *history.History {
	h := &history.History{
		Documents: []history.Document{{ID: "d", Name: "by hand", TTL: 100, WaitTTL: 100}},
		Commands: []history.Command{{
			Document: "d", Kind: history.CommandRead, Sent: ns(1), Answered: ns(1), Matched: true, Image: &history.Image{Now: 1},
		}},
	}
	for _, line := range lines {
		tell(h, line)
	}
	return h
}

func ns(ms int64) int64 { return ms * 1_000_000 }

var rules = map[string]history.Rules{
	"exclusive": {"write": {"write": {}}},
	"queued":    {"write": {"write": {Assertive: true}}},
	"readers":   {"read": {"write": {}}, "write": {"read": {Assertive: true}, "write": {}}},
	"mixed":     {"write": {"write": {}, "read": {}}, "read": {}},
	"two":       {"write": {"write": {Allow: 1}}},
	"free":      {"write": {}, "read": {}},
	"unknown":   {"write": {}}, // as "read" is
}

// tell adds what a line tells, separated by semicolons. Commands have words in lower case, and
// calls the names of methods:
//
//	rules exclusive; apart 5; log 10/w1 20/w2
//	10 acquire a = 10 a#10-110
//	20 Update a#10 w1 done
//
// So the members' clocks are 5 ms apart, and the log has two writes.
func tell(h *history.History, line string) {
	for _, part := range strings.Split(line, ";") {
		words := strings.Fields(part)
		switch d := &h.Documents[0]; words[0] {
		case "rules":
			d.Rules = rules[words[1]]
		case "apart":
			h.Apart = number(words[1]) * 1_000_000
		case "log":
			d.Log = words[1:]
		default:
			at, kind := words[0], words[1]
			if kind == history.Look || unicode.IsUpper(rune(kind[0])) {
				o := operation(at, kind, words[2:])
				o.Number = int64(len(h.Operations))
				h.Operations = append(h.Operations, o)
			} else {
				c := command(at, kind, words[2:])
				c.Number = int64(len(h.Commands))
				h.Commands = append(h.Commands, c)
			}
		}
	}
}

// operation is a call of a lease (or with a token's key), perhaps with the name of a write, and
// what it was told. A look is told for how long the lease is valid, or that it is over.
func operation(at, kind string, words []string) history.Operation {
	from, to := around(at)
	told := words[len(words)-1]
	o := history.Operation{Kind: kind, Document: "d", Tag: "write", Call: ns(from), Return: ns(to), Outcome: told}
	if strings.Contains(words[0], "#") {
		of := name(words[0])
		o.ID, o.Fence = of.ID, of.Fence
	} else {
		o.Key = words[0]
	}
	if len(words) == 3 {
		o.Write = words[1]
	}
	if unicode.IsDigit(rune(told[0])) {
		o.Outcome, o.Remaining = history.StillValid, number(told)*1_000_000
	}
	return o
}

// command has its entry's id, with # and a fence if that is in its guard. "?" is one without an
// answer. Reads are linearizable, and there is one token.
func command(at, kind string, words []string) history.Command {
	from, to := around(at)
	c := history.Command{
		Kind: kind, Document: "d", Tag: "write", Sent: ns(from), Answered: ns(to), Matched: true, Newest: kind == history.CommandRead,
	}
	if kind == history.CommandDetach || kind == history.CommandResume || kind == history.CommandTouch {
		c.Key = "k"
	}
	for i := 0; i < len(words); i++ {
		switch words[i] {
		case "=":
			c.Image = image(to-1, words[i+1:])
			return c
		case "from": // a conversion's
			i++
			c.From = words[i]
		case "over": // a take-over's
			i++
			c.Named = append(c.Named, name(words[i]))
		case "removes": // a release
			i++
			own := entry(words[i])
			c.Own = &own
		case "handed":
			c.Handed = true
		case "inherits":
			c.Inherits = true
		case "ghost":
			c.Ghost = true
		case "operator": // sends it
			c.Process = 1
		case "claims": // it names no document
			c.Claims, c.Document = true, ""
		case "elsewhere":
			c.Document = "e"
		case "nothing": // is what it finds
			c.Matched = false
		case "?":
			c.Answered, c.Matched = 0, false
		default:
			of := name(words[i])
			c.ID, c.Fence = of.ID, of.Fence
		}
	}
	return c
}

// around is the time that something took: 2 ms, or as in "8-14".
func around(at string) (from, to int64) {
	if first, last, given := strings.Cut(at, "-"); given {
		return number(first), number(last)
	}
	return number(at) - 1, number(at) + 1
}

// image is lock.fence, perhaps with ! and broken, and then the entries, of an instant in the
// midst of the command.
func image(now int64, words []string) *history.Image {
	fence, broken, _ := strings.Cut(words[0], "!")
	img := &history.Image{Now: now, Fence: number(fence), Broken: number(broken)}
	for _, word := range words[1:] {
		img.Entries = append(img.Entries, entry(word))
	}
	return img
}

// An entry is its id, #, its seq, - and its expiry. Its fence is its seq, or stands after a slash:
// a#10/0-110 waits. In front may be its tag, and at the end k, if it has the token's key, or u and
// until. It has come at the time of its seq.
var entryForm = regexp.MustCompile(`^(?:(\w+):)?(\w+)#(\d+)(?:/(\d+))?-(\d+)(k?)(?:u(\d+))?$`)

func entry(text string) history.Entry {
	m := entryForm.FindStringSubmatch(text)
	if m == nil {
		panic(text + " is no entry")
	}
	return history.Entry{
		Tag: cmp.Or(m[1], "write"), ID: m[2], Seq: number(m[3]), Fence: number(cmp.Or(m[4], m[3])),
		Since: number(m[3]), Expires: number(m[5]), Key: m[6], Until: number(m[7]),
	}
}

func name(text string) history.Name {
	id, fence, _ := strings.Cut(text, "#")
	return history.Name{ID: id, Fence: number(fence)}
}

// number is 0 if there is none.
func number(text string) int64 {
	n, err := strconv.ParseInt(cmp.Or(text, "0"), 10, 64)
	if err != nil {
		panic(err)
	}
	return n
}
