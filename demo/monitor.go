package main

import (
	"context"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/event"
)

// monitor counts the commands that a client sends, and among them the conflicts.
//
// Do and Acquire wait for the lock by themselves, and don't return how often the server refused or made them wait. But each try
// is one findAndModify, and a monitor sees all tries that an operation sends before it has the lock and begins its work.
func (t *tally) monitor() *event.CommandMonitor {
	return &event.CommandMonitor{Started: func(ctx context.Context, command *event.CommandStartedEvent) {
		t.commands.Add(1)
		op, ok := ctx.Value(operationKey{}).(*operation)
		switch {
		case !ok:
		case command.CommandName != "findAndModify":
			op.working.Store(true)
		case !op.working.Load() && op.asked.Add(1) > 1:
			t.conflicts.Add(1)
		}
	}}
}

// An operation is one addition or deletion. First it asks for the lock, then it works.
type operation struct {
	asked   atomic.Int64 // how often it asked for the lock
	working atomic.Bool
}

type operationKey struct{}

// begin marks the commands that are sent with the context as one operation.
func begin(ctx context.Context) context.Context {
	return context.WithValue(ctx, operationKey{}, &operation{})
}
