package mongotest

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A private server is another than the shared one. It stops in its tracks, and is
// killed, and keeps its data.
func TestPrivate(t *testing.T) {
	t.Setenv("MONGODB_URI", "mongodb://127.0.0.1:1/")
	server := Private(t)
	uri := server.URI()
	database := DatabaseOn(t, server.Client(options.Client().SetServerSelectionTimeout(10*time.Second)))
	insert(t, database, "before")

	server.Stop()
	short, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := database.Client().Ping(short, nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("a stopped server answers: %v", err)
	}
	server.Continue()
	if n := count(t, database); n != 1 {
		t.Errorf("%d documents, not 1", n)
	}

	server.Kill()
	if _, err := probe(t.Context(), uri, 200*time.Millisecond); err == nil {
		t.Error("a killed server answers")
	}
	server.Restart()
	if server.URI() != uri {
		t.Errorf("restarted at %s, not at %s", server.URI(), uri)
	}
	if n := count(t, database); n != 1 { // the driver repeats a read whose connection the kill has broken, and not a write
		t.Errorf("%d of 1 document survived the kill", n)
	}
	insert(t, database, "after")
	server.Restart() // of a running server
	if n := count(t, database); n != 2 {
		t.Errorf("%d of 2 documents survived", n)
	}
}
