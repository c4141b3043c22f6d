package main

import (
	"context"
	"sync/atomic"

	"go.mongodb.org/mongo-driver/v2/event"
)

// monitor counts the commands that a client sends, and among them the conflicts.
//
// Do and Acquire wait for the lock by themselves, and don't tell how often they were turned away or told to wait. But each
// time is one findAndModify, and all those of an operation, before it got the lock and set to work, are visible here.
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

// An operation is one addition or deletion, on its way to the lock or at work.
type operation struct {
	asked   atomic.Int64 // for the lock
	working atomic.Bool
}

type operationKey struct{}

// begin marks what is sent under the context as one operation.
func begin(ctx context.Context) context.Context {
	return context.WithValue(ctx, operationKey{}, &operation{})
}
