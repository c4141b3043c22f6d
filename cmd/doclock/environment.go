package main

import (
	"encoding/json"
	"fmt"
	"os"

	"github.com/doclock/doclock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// environment is what the command of run gets.
func (c *cli) environment(lease *doclock.Lease) []string {
	db, coll, _ := c.namespace()
	env := append(os.Environ(),
		fmt.Sprintf("DOCLOCK_FENCE=%d", lease.Fence()),
		"DOCLOCK_LEASE="+lease.ID().String(),
		"DOCLOCK_TAG="+lease.Tag(),
		"DOCLOCK_COLLECTION="+db+"."+coll,
		"DOCLOCK_DOCUMENT="+extended(lease.DocumentID()),
	)
	if guard, err := bson.MarshalExtJSON(lease.Guard(), true, false); err == nil {
		env = append(env, "DOCLOCK_GUARD="+string(guard))
	}
	if name, ok := lease.DocumentID().StringValueOK(); ok {
		env = append(env, "DOCLOCK_NAME="+name)
	}
	return env
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
		fmt.Fprintf(c.err, "%s\n", line)
	case on:
		fmt.Fprintln(c.err, "doclock:", cell(text))
	}
}
