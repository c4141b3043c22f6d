package admin_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock/admin"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A loop that is left closes the server's cursor, also if its context has ended.
func TestEntriesCloseTheCursor(t *testing.T) {
	p := newPlace(t)
	var many []bson.D
	for i := range 501 { // more than one answer's
		many = append(many, bson.D{idIs(i), lock(9, tag("write", entry("ann", 1, 2, time.Hour)))})
	}
	if _, err := p.Hand.InsertMany(t.Context(), many); err != nil {
		t.Fatal(err)
	}
	var closed atomic.Int32
	coll := p.Through(options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "killCursors" {
			closed.Add(1)
		}
	}}))
	for n, end := range []func(context.CancelFunc){func(context.CancelFunc) {}, func(cancel context.CancelFunc) { cancel() }} {
		ctx, cancel := context.WithCancel(t.Context())
		for _, err := range admin.Entries(ctx, coll, admin.Query{}, p.clocked()) {
			if err != nil {
				t.Error(err)
			}
			end(cancel)
			break
		}
		cancel()
		if closed := closed.Load(); closed != int32(n+1) {
			t.Errorf("%d cursors were closed, want %d", closed, n+1)
		}
	}
}
