package mongotest

import (
	"context"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// owned are the servers of tests that have one of their own, by the tests' names.
var owned sync.Map

// Own gives a test a server of its own in memory: [Client] and [Database] lead to that one, in its subtests too.
func Own(tb testing.TB, opts ...locktest.Option) *locktest.Server {
	tb.Helper()
	server := locktest.New(tb, opts...)
	owned.Store(tb.Name(), server)
	tb.Cleanup(func() { owned.Delete(tb.Name()) })
	return server
}

// Members has [Client] and [Database] lead to a server with members, where the driver repeats writes: the one of this run,
// or a replica set in memory.
func Members(tb testing.TB) {
	tb.Helper()
	if !HasMembers(tb) {
		Own(tb, locktest.ReplicaSet())
	}
}

// HasMembers reports whether the test's server has members, which a router has behind it.
func HasMembers(tb testing.TB) bool {
	tb.Helper()
	topology, err := topologyOf(context.Background(), Client(tb))
	if err != nil {
		tb.Fatalf("mongotest: %v", err)
	}
	return topology != standalone
}

// ever is far more virtual time than a test takes.
const ever = 1000 * time.Hour

// Virtual runs a test in a bubble of [testing/synctest], with a server of its own. All time is virtual: a test may sleep, and
// its leases may be as short as it likes. It is skipped where DOCLOCK_TEST_URI names a server, which it would not meet. One
// that waits for ever ends with a panic, and all stacks, within a minute or two.
func Virtual(t *testing.T, test func(t *testing.T), opts ...locktest.Option) {
	t.Helper()
	if testURI() != "" {
		t.Skip("it has a server of its own, in virtual time: unset DOCLOCK_TEST_URI")
	}
	synctest.Test(t, func(t *testing.T) {
		defer time.AfterFunc(ever, func() { panic(t.Name() + " waits for ever") }).Stop()
		Own(t, opts...)
		test(t)
	})
}

// RunVirtual is Virtual for a subtest.
func RunVirtual(t *testing.T, name string, test func(t *testing.T)) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) { Virtual(t, test) })
}

// Memory is the server of a test that has its own.
func Memory(tb testing.TB) *locktest.Server {
	tb.Helper()
	server := ownOf(tb)
	if server == nil {
		tb.Fatal("mongotest: the test has no server of its own; it has in Virtual, and after Own")
	}
	return server
}

// ownOf is the server of a test, or of a test of which it is a part. It is nil if the test has the server of this run.
func ownOf(tb testing.TB) *locktest.Server {
	for name := tb.Name(); name != ""; name = name[:max(0, strings.LastIndexByte(name, '/'))] {
		if own, found := owned.Load(name); found {
			return own.(*locktest.Server)
		}
	}
	return nil
}

// IsVirtual reports whether time is virtual here: it begins with the year 2000.
func IsVirtual() bool { return time.Now().Year() < 2020 }

// clientOf is a client of a server of the test's own.
func clientOf(tb testing.TB, server *locktest.Server, opts ...*options.ClientOptions) *mongo.Client {
	tb.Helper()
	if len(opts) == 0 {
		return server.Client()
	}
	all := options.MergeClientOptions(opts...)
	if all.Dialer == nil {
		return server.Connect(all)
	}
	all.Dialer.(over).Over(server)
	return connect(tb, server.URI(), all)
}

// over is a dialer of faults. It connects by another one.
type over interface{ Over(options.ContextDialer) }
