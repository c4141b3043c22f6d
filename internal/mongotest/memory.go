package mongotest

import (
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// memory is the server of all tests of the process if DOCLOCK_TEST_MEMORY is set:
// the tests then show that locktest's server behaves as the real one. Those that
// need an address, or another server than that, are skipped, and say so.
var memory = func() *locktest.Server {
	if os.Getenv("DOCLOCK_TEST_MEMORY") == "" {
		return nil
	}
	return locktest.Start()
}()

// bubbles are the servers of the tests that run in virtual time, by name.
var bubbles sync.Map

// Virtual runs a test in a bubble of [testing/synctest], with a server in memory
// of its own: [Client] and [Database] give that one. A client with a dialer
// reaches it by connections, so that the driver does all that it does in a
// network. All time is virtual: a test may sleep, and its leases may be as short
// as it likes.
func Virtual(t *testing.T, test func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		bubbles.Store(t.Name(), locktest.New(t))
		t.Cleanup(func() { bubbles.Delete(t.Name()) })
		test(t)
	})
}

// RunVirtual is Virtual for a subtest.
func RunVirtual(t *testing.T, name string, test func(t *testing.T)) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) { Virtual(t, test) })
}

// Memory is the server of a test that [Virtual] runs.
func Memory(tb testing.TB) *locktest.Server { return ofMemory(tb) }

// inBubble reports whether time is virtual here: it begins with the year 2000.
func inBubble() bool { return time.Now().Year() < 2020 }

// ofMemory is the server in memory that this test has, or nil.
func ofMemory(tb testing.TB) *locktest.Server {
	if !inBubble() {
		return memory
	}
	own, _ := bubbles.Load(tb.Name())
	server, _ := own.(*locktest.Server)
	if server == nil {
		tb.Fatal("mongotest: a test in a bubble has no server, unless it is run by Virtual")
	}
	return server
}

// inMemory is a client of a server in memory.
func inMemory(tb testing.TB, server *locktest.Server, opts ...*options.ClientOptions) *mongo.Client {
	tb.Helper()
	if len(opts) == 0 {
		return server.Client()
	}
	all := options.MergeClientOptions(opts...)
	if all.Dialer == nil {
		return server.Connect(all)
	}
	faults, ok := all.Dialer.(over)
	if !ok {
		tb.Skip("a server in memory can't be reached by this dialer")
	}
	faults.Over(server)
	return connect(tb, server.URI(), opts...)
}

// over is a dialer of faults. It connects by another one.
type over interface{ Over(options.ContextDialer) }
