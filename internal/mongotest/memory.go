package mongotest

import (
	"os"
	"testing"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// memory is the server of all tests of the process if DOCLOCK_TEST_MEMORY is set:
// the tests then show that locktest's server behaves as the real one. Those that
// need a network, or another server than that, are skipped, and say so.
var memory = func() *locktest.Server {
	if os.Getenv("DOCLOCK_TEST_MEMORY") == "" {
		return nil
	}
	return locktest.New()
}()

// inMemory is a client of the server in memory.
func inMemory(tb testing.TB, opts ...*options.ClientOptions) *mongo.Client {
	tb.Helper()
	if len(opts) == 0 {
		return memory.Client()
	}
	if all := options.MergeClientOptions(opts...); all.Dialer != nil {
		tb.Skip("a server in memory has no network")
	}
	client, err := memory.Connect(opts...)
	if err != nil {
		tb.Fatalf("mongotest: connecting: %v", err)
	}
	return client
}
