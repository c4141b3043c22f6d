//go:build unix

package mongotest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// docs/layout.md reads a lock by SQL.
func TestPageReadsALockBySQL(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "layout.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, question, found := strings.Cut(string(page), "\n```sql\n")
	question, _, closed := strings.Cut(question, "```")
	if !found || !closed {
		t.Fatal("docs/layout.md has no SQL")
	}
	db := Database(t)
	entry := func(owner string, seq int64, expires time.Time, more ...bson.E) bson.D {
		return append(bson.D{{Key: "owner", Value: owner}, {Key: "seq", Value: seq}, {Key: "expires", Value: expires}}, more...)
	}
	later := time.Now().Add(time.Hour)
	_, err = db.Collection("orders").InsertOne(t.Context(), bson.M{"_id": 7, "lock": bson.M{"fence": int64(6), "tags": bson.M{
		"read":  bson.A{entry("ann", 5, later, bson.E{Key: "fence", Value: int64(5)}), entry("gone", 4, time.Unix(0, 0), bson.E{Key: "fence", Value: int64(4)})},
		"write": bson.A{entry("bob", 6, later)},
	}}})
	if err != nil {
		t.Fatal(err)
	}
	question = strings.ReplaceAll(question, "'shop'", "'"+db.Name()+"'")
	answers := psql(t, db.Name(), question)
	if want := []string{"read|ann|5|00:5", "write|bob||00:5"}; len(answers) != 2 || !strings.HasPrefix(answers[0], want[0]) || !strings.HasPrefix(answers[1], want[1]) {
		t.Errorf("the answer is %q, want %q", answers, want)
	}
}

// psql asks the PostgreSQL below the shared server, which is the one in the cache's Debian that
// has the database, and returns the rows.
func psql(t *testing.T, database, question string) []string {
	t.Helper()
	c, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	root, err := openDebianRoot(c)
	if err != nil || os.Getuid() != 0 {
		t.Skip("the shared server is not DocumentDB in the cache")
	}
	runs, err := filepath.Glob(root.path(filepath.Join(runsIn, "*")))
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range runs {
		ask := func(question string) (string, error) {
			said, err := root.command(t.Context(), postgresBin+"psql", "-X", "-A", "-t", "-h", filepath.Join(runsIn, filepath.Base(run)), "-U", "postgres", "-c", question, "postgres").CombinedOutput()
			return string(said), err
		}
		if here, _ := ask("select 'here' from documentdb_api_catalog.collections where database_name = '" + database + "'"); !strings.HasPrefix(here, "here\n") {
			continue
		}
		said, err := ask(question)
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		return strings.Fields(said)
	}
	t.Skip("the shared server is not DocumentDB in the cache")
	return nil
}
