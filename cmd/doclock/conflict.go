package main

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/doclock/doclock"
)

// errConflict: others hold the lock. The text before it says who.
var errConflict = errors.New("the command was not run")

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
		state := "held"
		if h.Waiting {
			state = "waiting"
		}
		holders = append(holders, fmt.Sprintf("%s (%q, %s, %s left)", cmp.Or(h.Owner, "?"), h.Tag, state, short(h.Remaining)))
	}
	if more := len(c.Holders) - shown; more > 0 {
		holders = append(holders, fmt.Sprintf("%d more", more))
	}
	if len(holders) == 0 {
		return t.text + ": others were in the way, and have left since"
	}
	return fmt.Sprintf("%s is kept back by %s", t.text, strings.Join(holders, ", "))
}
