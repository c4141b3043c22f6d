package mongotest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
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

// testURI is the server of the tests, if it isn't in memory. It is read while a test runs, because go test would else take a
// result from its cache that was another server's.
func testURI() string { return os.Getenv("DOCLOCK_TEST_URI") }

// shared is the server of this process's tests, and their client.
var shared struct {
	mu        sync.Mutex
	server    *Server
	client    *mongo.Client
	databases []*mongo.Database // of its tests
	err       error             // why there is no server; it is not tried again
}

// Main is every package's TestMain. It runs the tests, disconnects, checks that the tests have left no goroutines, and
// exits.
func Main(m *testing.M) {
	sideBySide()
	debug.SetGCPercent(400) // tests allocate much and keep little
	code := m.Run()
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

// disconnect lets the server go.
func disconnect() (err error) {
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.server == nil {
		return nil
	}
	defer shared.server.Close()
	if shared.client == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), Patience)
	defer cancel()
	for _, database := range shared.databases {
		if err := database.Drop(ctx); err != nil {
			fmt.Fprintf(os.Stderr, "mongotest: dropping %s: %v\n", database.Name(), err)
			break
		}
	}
	return shared.client.Disconnect(ctx)
}

// URI is the server's connection string. The test fails if there is no server.
func URI(tb testing.TB) string {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	return server(tb).URI()
}

// server needs shared.mu.
func server(tb testing.TB) *Server {
	tb.Helper()
	if shared.server == nil && shared.err == nil {
		shared.server, shared.err = Open(tb.Context(), testURI())
	}
	if shared.err != nil {
		tb.Fatalf("mongotest: %v", shared.err)
	}
	return shared.server
}

// Real skips a test of what only a database has, if the server is one in memory. CONTRIBUTING.md names each.
func Real(tb testing.TB, has string) {
	tb.Helper()
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if strings.HasPrefix(server(tb).Description(), inMemory) {
		tb.Skipf("only a database has %s: set DOCLOCK_TEST_URI", has)
	}
}

// Private is the URI of a server that this test alone has, and a function that kills it (-9) and starts it again on the
// same data. They are those of the script DOCLOCK_TEST_SCRIPT, as .ci/ferretdb is one. Without it the test is skipped.
func Private(tb testing.TB) (uri string, restart func()) {
	tb.Helper()
	script := os.Getenv("DOCLOCK_TEST_SCRIPT")
	if script == "" {
		tb.Skip("the test kills its server: set DOCLOCK_TEST_SCRIPT to the absolute path of .ci/ferretdb")
	}
	dir := tb.TempDir()
	call := func(verb string) string {
		cmd := exec.Command(script, verb)
		cmd.Env, cmd.Stderr = append(os.Environ(), "DOCLOCK_FERRETDB="+dir+"/server"), os.Stderr
		out, err := cmd.Output()
		if err != nil {
			tb.Errorf("mongotest: %s %s: %v", script, verb, err)
		}
		return string(out)
	}
	tb.Cleanup(func() { call("stop") })
	_, uri, _ = strings.Cut(call("start"), "DOCLOCK_TEST_URI='")
	uri, _, _ = strings.Cut(uri, "'")
	return uri, func() { call("restart") }
}

// Client is a client of the server. Without options it is the one that all tests of the process share, and no test may
// disconnect it. With options, such as a command monitor, it is a new one, disconnected at the end of the test.
func Client(tb testing.TB, opts ...*options.ClientOptions) *mongo.Client {
	tb.Helper()
	if own := ownOf(tb); own != nil {
		return clientOf(tb, own, opts...)
	}
	if len(opts) > 0 {
		return connect(tb, URI(tb), opts...)
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if shared.client == nil {
		client, err := mongo.Connect(options.Client().ApplyURI(server(tb).URI()))
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
		if !IsVirtual() { // there the driver would spin until the deadline, which never comes
			ctx, cancel = context.WithTimeout(ctx, Patience)
		}
		defer cancel()
		if err := client.Disconnect(ctx); err != nil {
			tb.Errorf("mongotest: disconnecting: %v", err)
		}
	})
	return client
}

// Database is a new database for the test, on the client that all share. They are dropped at the end of the process,
// together: after a drop each of DocumentDB's backends reads its catalogues again, which takes ten times as long.
func Database(tb testing.TB) *mongo.Database {
	tb.Helper()
	database := Client(tb).Database(databaseName(tb.Name()))
	if ownOf(tb) != nil {
		return database // its server ends with the test
	}
	shared.mu.Lock()
	defer shared.mu.Unlock()
	shared.databases = append(shared.databases, database)
	return database
}

// databaseName is a new name each time, within the 63 characters that servers allow, and shows its test to people.
func databaseName(test string) string {
	readable := strings.Map(func(r rune) rune {
		if r < 0x80 && (r == '_' || r >= '0' && r <= '9' || r >= 'A' && r <= 'Z' || r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, test)
	return fmt.Sprintf("t_%.24s_%s", readable, strings.ReplaceAll(uuid.NewString(), "-", ""))
}
