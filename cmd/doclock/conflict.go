package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/doclock/doclock"
)

// heldError: others hold the lock. Its text says which.
type heldError struct {
	text string
	err  error
}

func (e *heldError) Error() string { return e.text }
func (e *heldError) Unwrap() error { return e.err }

// errNoneFree: --skip found nothing.
var errNoneFree = errors.New("no document matches and is free")

// conflict says who is in the way, the first few of many.
func (t target) conflict(err error) string {
	var c *doclock.ConflictError
	if !errors.As(err, &c) {
		return t.text + ": " + errNoneFree.Error()
	}
	const shown = 3
	var holders []string
	for _, h := range c.Holders[:min(shown, len(c.Holders))] {
		waiting := ""
		if h.Waiting {
			waiting = ", waiting before it"
		}
		holders = append(holders, fmt.Sprintf("%s (%q%s, %s left)", cmp.Or(h.Owner, "?"), h.Tag, waiting, short(h.Remaining)))
	}
	if more := len(c.Holders) - shown; more > 0 {
		holders = append(holders, fmt.Sprintf("%d more", more))
	}
	if len(holders) == 0 {
		return t.text + ": others were in the way, and have left since"
	}
	return fmt.Sprintf("%s is kept back by %s", t.text, strings.Join(holders, ", "))
}
