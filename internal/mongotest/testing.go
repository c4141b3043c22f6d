package mongotest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.uber.org/goleak"
)

// Patience bounds every wait for something that must happen, on a machine that is busy with something else.
const Patience = 2 * time.Minute

// shared is this process's connection to the shared server, and its one client.
var shared struct {
	mu        sync.Mutex
	server    *Shared
	client    *mongo.Client
	databases []*mongo.Database // of its tests
	err       error             // why there is no server; it is not tried again
}

// Main is every package's TestMain. It runs the tests, leaves the shared
// server, checks that the tests have left no goroutines, and exits.
func Main(m *testing.M) {
	sideBySide()
	debug.SetGCPercent(400) // tests allocate much and keep little
	code := m.Run()
	if memory != nil {
		memory.Close()
	}
	if err := disconnect(); err != nil {
		fmt.Fprintln(os.Stderr, "mongotest:", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := left(); err != nil {
			fmt.Fprintln(os.Stderr, "mongotest: the tests have left goroutines behind:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// left is an error if goroutines are left. goleak looks for half a second, and on a busy machine they may end later.
func left() error {
	for begun := time.Now(); ; {
		if err := goleak.Find(); err == nil || time.Since(begun) > 10*time.Second {
			return err
		}
	}
}

// sideBySide runs more tests at a time than there are cores, because they wait for the server.
func sideBySide() {
	if flag.Parsed() {
		return
	}
	if err := flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))); err != nil {
		panic(err)
	}
}

// disconnect lets the shared server go.
func disconnect() error {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.client != nil {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := drop(ctx, shared.databases); err != nil {
			fmt.Fprintln(os.Stderr, "mongotest:", err)
		}
		if err := shared.client.Disconnect(ctx); err != nil {
			return fmt.Errorf("disconnecting the shared client: %w", err)
		}
		shared.client = nil
	}
	if shared.server != nil {
		if err := shared.server.Close(); err != nil {
			return err
		}
		shared.server = nil
	}
	return nil
}

// drop drops databases, up to the first that it can't.
func drop(ctx context.Context, databases []*mongo.Database) error {
	for _, database := range databases {
		if err := database.Drop(ctx); err != nil {
			return fmt.Errorf("dropping %s: %w", database.Name(), err)
		}
	}
	return nil
}

// URI is the shared server's connection string. The test fails if there is no server.
func URI(tb testing.TB) string {
	tb.Helper()
	if ofMemory(tb) != nil {
		tb.Skip("a server in memory has no address")
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return sharedServer(tb).URI()
}

// sharedServer needs shared.mu.
func sharedServer(tb testing.TB) *Shared {
	tb.Helper()
	if shared.server == nil && shared.err == nil {
		out, done := terminal()
		defer done()
		shared.server, shared.err = Start(tb.Context(), out)
	}
	if shared.err != nil {
		tb.Fatalf("mongotest: %v", shared.err)
	}
	return shared.server
}

// Client is a client of the shared server. Without options it is the one that
// all tests of the process share, and no test may disconnect it. With options,
// such as a command monitor, it is a new one, disconnected at the end of the
// test.
func Client(tb testing.TB, opts ...*options.ClientOptions) *mongo.Client {
	tb.Helper()
	if server := ofMemory(tb); server != nil {
		return inMemory(tb, server, opts...)
	}
	if len(opts) > 0 {
		return connect(tb, URI(tb), opts...)
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.client == nil {
		client, err := mongo.Connect(options.Client().ApplyURI(sharedServer(tb).URI()))
		if err != nil {
			tb.Fatalf("mongotest: connecting: %v", err)
		}
		shared.client = client
	}
	return shared.client
}

// connect makes a client that is disconnected at the end of the test.
func connect(tb testing.TB, uri string, opts ...*options.ClientOptions) *mongo.Client {
	tb.Helper()
	client, err := mongo.Connect(append([]*options.ClientOptions{options.Client().ApplyURI(uri)}, opts...)...)
	if err != nil {
		tb.Fatalf("mongotest: connecting: %v", err)
	}
	tb.Cleanup(func() {
		ctx, cancel := context.Background(), func() {}
		if !inBubble() { // there the driver would spin until the deadline, which never comes
			ctx, cancel = context.WithTimeout(ctx, Patience)
		}
		defer cancel()
		if err := client.Disconnect(ctx); err != nil {
			tb.Errorf("mongotest: disconnecting: %v", err)
		}
	})
	return client
}

// Database is a new database for the test, on the shared client. All are dropped
// at the end of the process, together: after a drop each of DocumentDB's backends
// reads its catalogues again, which takes ten times as long as the drop.
func Database(tb testing.TB) *mongo.Database {
	tb.Helper()
	if ofMemory(tb) != nil {
		return DatabaseOn(tb, Client(tb))
	}
	database := Client(tb).Database(databaseName(tb.Name()))
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.databases = append(shared.databases, database)
	return database
}

// DatabaseOn is a new database for the test, on the given client. It is dropped
// at the end of the test, if the server can be reached then.
func DatabaseOn(tb testing.TB, client *mongo.Client) *mongo.Database {
	tb.Helper()
	database := client.Database(databaseName(tb.Name()))
	tb.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), Patience)
		defer cancel()
		if err := drop(ctx, []*mongo.Database{database}); err != nil {
			tb.Logf("mongotest: %v", err)
		}
	})
	return database
}

// databaseName is a new name each time, within the 63 characters that servers
// allow, and shows its test to people.
func databaseName(test string) string {
	readable := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, test)
	return fmt.Sprintf("t_%.24s_%s", readable, strings.ReplaceAll(uuid.NewString(), "-", ""))
}
