// Package oneline has texts for readers of a log or a terminal: errors are joined
// on one line, each text once, and texts of others are quoted.
package oneline

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// prefix begins the library's own errors. A line has it once.
const prefix = "doclock: "

// Join is [errors.Join] with another text. The errors are on one line, and an
// error is left out of the text if another one's text contains it. Join returns
// nil if all errors are nil, and a single error unchanged.
func Join(errs ...error) error { return join(len(errs), errs) }

// Some is Join with a text that has three of the errors, and counts the others.
func Some(errs ...error) error { return join(3, errs) }

func join(shown int, errs []error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return &joined{errs, shown}
	}
}

// Because is an error with the text and identity of what, followed by its
// cause.
func Because(what, cause error) error { return &because{what, cause} }

type because struct{ what, cause error }

func (b *because) Unwrap() []error { return []error{b.what, b.cause} }

func (b *because) Error() string {
	return b.what.Error() + ": " + withoutPrefix.Replace(strings.TrimPrefix(oneLine(b.cause), prefix))
}

// withoutPrefix takes the prefix from the errors in a text, and from no other place.
var withoutPrefix = strings.NewReplacer(": "+prefix, ": ", "; "+prefix, "; ")

func oneLine(err error) string { return Text(strings.ReplaceAll(err.Error(), "\n", "; ")) }

// Text is a text of others, as from a document or a server's error. What isn't
// printable is escaped as in JSON: the text begins no line of a log, and steers no
// terminal. JSON stays what it is, as a string is the only place for such characters.
func Text(s string) string {
	if utf8.ValidString(s) && !strings.ContainsFunc(s, func(r rune) bool { return !strconv.IsPrint(r) }) {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		if strconv.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		for _, unit := range utf16.AppendRune(nil, r) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

type joined struct {
	errs  []error
	shown int // in the text, at most
}

func (j *joined) Unwrap() []error { return j.errs }

func (j *joined) Error() string {
	line, n := "", 0
	for _, err := range j.errs {
		text := oneLine(err)
		bare := strings.TrimPrefix(text, prefix)
		switch {
		case line != "" && strings.Contains(line, bare):
			continue
		case strings.Contains(text, strings.TrimPrefix(line, prefix)): // and more than it
			line, n = text, 0
		case n >= j.shown:
		case strings.HasPrefix(line, prefix):
			line += "; " + bare
		default:
			line += "; " + text
		}
		n++
	}
	if n > j.shown {
		line += fmt.Sprintf("; and %d more", n-j.shown)
	}
	return line
}
