package mongotest

import (
	"slices"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) { Main(m) }

func TestEachTestHasItsDatabase(t *testing.T) {
	t.Parallel()
	var dropped *mongo.Database
	t.Run("first", func(t *testing.T) {
		dropped = Database(t)
		insert(t, dropped, "a")
	})
	t.Run("second", func(t *testing.T) {
		database := Database(t)
		if database.Name() == dropped.Name() {
			t.Errorf("two tests have the same database %s", database.Name())
		}
		if n := count(t, database); n != 0 {
			t.Errorf("a new database has %d documents", n)
		}
	})
	shared.mu.Lock()
	defer shared.mu.Unlock()
	if !slices.Contains(shared.databases, dropped) {
		t.Error("it would not be dropped at the end")
	}
}

// .ci/test-against reads it.
func TestDescription(t *testing.T) {
	URI(t)
	t.Logf("it is %s", shared.server.Description())
	if d := shared.server.Description(); testURI() == "" && d != "locktest, in this process: shows behaviour, proves nothing about MongoDB" {
		t.Errorf("it is %s", d)
	}
	for _, uri := range []string{"mongodb://ann:geheim@/", "mongodb://ann:geh:eim@localhost"} {
		if _, err := Open(t.Context(), uri); err == nil || strings.Contains(err.Error(), "geh") {
			t.Errorf("a wrong URI: %v", err)
		}
	}
}

func TestClients(t *testing.T) {
	t.Parallel()
	if first, second := Client(t), Client(t); first != second {
		t.Error("without options, there are two clients")
	}
	var own *mongo.Client
	t.Run("own", func(t *testing.T) {
		own = Client(t, options.Client().SetAppName("own"))
		if own == Client(t) {
			t.Error("with options, it is the shared client")
		}
		insert(t, own.Database(Database(t).Name()), "a")
	})
	if err := own.Ping(t.Context(), nil); err == nil {
		t.Error("a test's own client still works after the test")
	}
}

func TestDatabaseName(t *testing.T) {
	for _, test := range []string{"TestÄ/with a very long name/that goes on and on/and.has$odd characters", "T", ""} {
		name := databaseName(test)
		if len(name) > 63 || strings.ContainsFunc(name, func(r rune) bool { return r > 0x7f || strings.ContainsRune(`/\. "$*<>:|?`, r) }) {
			t.Errorf("the database for %q is called %q", test, name)
		}
	}
}

func insert(tb testing.TB, database *mongo.Database, id string) {
	tb.Helper()
	if _, err := database.Collection("c").InsertOne(tb.Context(), bson.D{{Key: "_id", Value: id}}); err != nil {
		tb.Fatal(err)
	}
}

func count(tb testing.TB, database *mongo.Database) int64 {
	tb.Helper()
	n, err := database.Collection("c").CountDocuments(tb.Context(), bson.D{})
	if err != nil {
		tb.Fatal(err)
	}
	return n
}
