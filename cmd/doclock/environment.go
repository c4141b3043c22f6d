package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// environment is what the command of run gets.
func (c *cli) environment(lease *doclock.Lease) []string {
	db, coll, _ := c.namespace()
	outer := slices.DeleteFunc(os.Environ(), isOuter)
	env := append(outer,
		fmt.Sprintf("DOCLOCK_FENCE=%d", lease.Fence()),
		"DOCLOCK_LEASE="+lease.ID().String(),
		"DOCLOCK_TAG="+lease.Tag(),
		"DOCLOCK_COLLECTION="+db+"."+coll,
		"DOCLOCK_DOCUMENT="+extended(lease.DocumentID()),
	)
	if guard, err := bson.MarshalExtJSON(lease.Guard(), true, false); err == nil {
		env = append(env, "DOCLOCK_GUARD="+string(guard))
	}
	if name, ok := lease.DocumentID().StringValueOK(); ok && !strings.Contains(name, "\x00") {
		env = append(env, "DOCLOCK_NAME="+name)
	}
	return env
}

// isOuter reports whether a variable speaks of the lock of another run, which
// this one is the command of.
func isOuter(variable string) bool {
	name, _, _ := strings.Cut(variable, "=")
	switch name {
	case "DOCLOCK_FENCE", "DOCLOCK_GUARD", "DOCLOCK_DOCUMENT", "DOCLOCK_NAME", "DOCLOCK_COLLECTION", "DOCLOCK_TAG", "DOCLOCK_LEASE":
		return true
	}
	return false
}

// sayLate says for people what a run waits for, if answered isn't called soon.
func (c *cli) sayLate(h held, event, format string, args ...any) (answered func()) {
	const soon = 2 * time.Second
	timer := time.AfterFunc(soon, func() { c.say(h.verbose || isTerminal(c.err), event, format, args...) })
	return func() { timer.Stop() }
}

// say tells on stderr how a run goes: always what on says, and with --json
// everything.
func (c *cli) say(on bool, event, format string, args ...any) {
	text := c.redacted(fmt.Sprintf(format, args...))
	switch {
	case c.json:
		line, _ := json.Marshal(struct {
			Event   string `json:"event"`
			Message string `json:"message"`
		}{event, text})
		fmt.Fprintln(c.err, escapedJSON(line))
	case on:
		fmt.Fprintln(c.err, "doclock:", cell(text))
	}
}
