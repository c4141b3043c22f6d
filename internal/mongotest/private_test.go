package mongotest

import (
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A private server is killed, and keeps its data and its address.
func TestPrivate(t *testing.T) {
	t.Parallel()
	server := Private(t)
	uri := server.URI()
	database := server.Client(options.Client().SetServerSelectionTimeout(10 * time.Second)).Database("things")
	insert(t, database, "before")

	server.Restart() // of a running server
	if server.URI() != uri {
		t.Errorf("restarted at %s, not at %s", server.URI(), uri)
	}
	if n := count(t, database); n != 1 { // the driver repeats a read whose connection the kill has broken, and not a write
		t.Errorf("%d of 1 document survived the kill", n)
	}
	server.Kill()
	if _, err := probe(t.Context(), uri, 200*time.Millisecond); err == nil {
		t.Error("a killed server answers")
	}
}
