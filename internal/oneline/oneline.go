// Package oneline joins errors for readers of a log: on one line, each text
// once.
package oneline

import (
	"slices"
	"strings"
)

// prefix begins the library's own errors. A line has it once.
const prefix = "doclock: "

// Join is [errors.Join] with another text. The errors are on one line, and an
// error is left out of the text if another one's text contains it. Join returns
// nil if all errors are nil, and a single error unchanged.
func Join(errs ...error) error {
	errs = slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil })
	switch len(errs) {
	case 0:
		return nil
	case 1:
		return errs[0]
	default:
		return &joined{errs}
	}
}

// Because is an error with the text and identity of what, followed by its
// cause.
func Because(what, cause error) error { return &because{what, cause} }

type because struct{ what, cause error }

func (b *because) Unwrap() []error { return []error{b.what, b.cause} }

func (b *because) Error() string {
	return b.what.Error() + ": " + strings.ReplaceAll(oneLine(b.cause), prefix, "")
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

type joined struct{ errs []error }

func (j *joined) Unwrap() []error { return j.errs }

func (j *joined) Error() string {
	var line string
	for _, err := range j.errs {
		text := oneLine(err)
		bare := strings.TrimPrefix(text, prefix)
		switch {
		case line == "":
			line = text
		case strings.Contains(line, bare):
		case strings.Contains(text, strings.TrimPrefix(line, prefix)): // and more than it
			line = text
		case strings.HasPrefix(line, prefix):
			line += "; " + bare
		default:
			line += "; " + text
		}
	}
	return line
}
