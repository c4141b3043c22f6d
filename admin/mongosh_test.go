package admin_test

import (
	"context"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// mongoshLine is a line of docs/operations.md.
type mongoshLine struct {
	method string
	args   []bson.Raw
}

// mongoshVerbs does what the line of each verb does, by package admin.
var mongoshVerbs = map[string]func(context.Context, *mongo.Collection) error{
	"inspect": func(ctx context.Context, coll *mongo.Collection) error { return nil },
	"ls":      func(ctx context.Context, coll *mongo.Collection) error { return nil },
	"break": func(ctx context.Context, coll *mongo.Collection) error {
		lock, err := admin.Inspect(ctx, coll, doclock.ID("A-17"))
		if err != nil {
			return err
		}
		_, err = admin.Break(ctx, coll, lock.Entries[0])
		return err
	},
	"break --owner": func(ctx context.Context, coll *mongo.Collection) error {
		_, err := admin.Remove(ctx, coll, admin.Query{Owner: "web-3/4711/api"})
		return err
	},
	"break --prefix": func(ctx context.Context, coll *mongo.Collection) error {
		_, err := admin.Remove(ctx, coll, admin.Query{OwnerPrefix: "web-3/"})
		return err
	},
	"sweep": func(ctx context.Context, coll *mongo.Collection) error {
		_, err := admin.Sweep(ctx, coll)
		return err
	},
	"sweep --delete-idle": func(ctx context.Context, coll *mongo.Collection) error {
		_, err := admin.Sweep(ctx, coll, admin.DeleteIdle(720*time.Hour))
		return err
	},
	"index": func(ctx context.Context, coll *mongo.Collection) error {
		_, err := admin.EnsureIndexes(ctx, coll, []string{"write"})
		return err
	},
}

// Each line for mongosh leaves the documents as the verb does.
func TestMongoshLines(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Millisecond)
	lines := mongoshLines(t, now)
	for verb, does := range mongoshVerbs {
		line, found := lines[verb]
		if !found {
			t.Errorf("the page has no line for %s", verb)
			continue
		}
		byVerb, indexes := mongoshPlace(t, now)
		byLine, indexesOfLine := mongoshPlace(t, now)
		before := contents(t, byVerb)
		if err := does(t.Context(), byVerb); err != nil {
			t.Errorf("%s: %v", verb, err)
		}
		line.run(t, byLine)
		want := contents(t, byVerb)
		if verb == "sweep --delete-idle" { // the verb sweeps first
			mongoshLines(t, now)["sweep"].run(t, byLine)
		}
		if diff := cmp.Diff(want, contents(t, byLine)); diff != "" {
			t.Errorf("%s (-verb +line):\n%s", verb, diff)
		}
		if changes := line.method == "updateOne" || line.method == "updateMany" || line.method == "deleteMany"; changes == (cmp.Diff(before, want) == "") {
			t.Errorf("%s: the documents don't show what it does", verb)
		}
		if diff := cmp.Diff(*indexes, *indexesOfLine); diff != "" || (verb == "index") != (len(*indexes) == 1) {
			t.Errorf("%s makes other indexes (-verb +line):\n%s", verb, diff)
		}
	}
	if len(lines) != len(mongoshVerbs) {
		t.Errorf("the page has %d lines, the test %d", len(lines), len(mongoshVerbs))
	}
}

// The lines that read find what the verbs find.
func TestMongoshFinds(t *testing.T) {
	t.Parallel()
	now := time.Now().Truncate(time.Millisecond)
	lines := mongoshLines(t, now)
	coll, _ := mongoshPlace(t, now)
	lock, err := admin.Inspect(t.Context(), coll, doclock.ID("A-17"))
	if err != nil {
		t.Fatal(err)
	}
	shown := lines["inspect"].run(t, coll)
	if len(shown) != 1 || ids(shown[0].Lookup("lock", "tags", "write"))[0] != lock.Entries[0].ID.String() || shown[0].Lookup("now").Time().IsZero() {
		t.Errorf("inspect shows %v, the verb %v", shown, lock)
	}
	var want, got []string
	for e, err := range admin.Entries(t.Context(), coll, admin.Query{Tags: []string{"write"}}) {
		if err != nil {
			t.Fatal(err)
		}
		want = append(want, e.ID.String())
	}
	for _, doc := range lines["ls"].run(t, coll) {
		got = append(got, ids(doc.Lookup("entries"))...)
	}
	if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
		t.Errorf("ls (-verb +line):\n%s", diff)
	}
}

func ids(entries bson.RawValue) (ids []string) {
	values, _ := entries.Array().Values()
	for _, v := range values {
		_, id := v.Document().Lookup("id").Binary()
		ids = append(ids, fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]))
	}
	return ids
}

// mongoshPlace has documents of all kinds: held, waiting, expired, idle, of
// several owners. indexes has the indexes that are asked for.
func mongoshPlace(t *testing.T, now time.Time) (coll *mongo.Collection, indexes *[]string) {
	t.Helper()
	const shown = "f0ef0793-0c2c-4d0a-8c1b-6f1d2a3b4c5d"
	seq := int64(0)
	e := func(id, owner string, fence int64, left time.Duration) bson.D {
		seq++
		d := bson.D{
			{Key: "id", Value: uuidValue(t, id)}, {Key: "owner", Value: owner}, {Key: "seq", Value: seq},
			{Key: "since", Value: now.Add(-time.Minute)}, {Key: "expires", Value: now.Add(left)},
		}
		if fence != 0 {
			d = append(d, bson.E{Key: "fence", Value: fence})
		}
		return d
	}
	other := func(n int) string { return fmt.Sprintf("f0ef0793-0c2c-4d0a-8c1b-%012d", n) }
	old := now.Add(-1000 * time.Hour).UnixMilli()
	idle := func(id string, more ...bson.E) bson.D {
		return append(bson.D{idIs(id), lock(old, tag("write", e(other(9), "web-9/1/x", old, -time.Hour)))}, more...)
	}
	docs := []any{
		bson.D{idIs("A-17"), lock(1795448096117, tag("write", e(shown, "web-3/4711/api", 1795448096117, time.Hour), e(other(1), "web-4/1/api", 0, time.Hour)))},
		bson.D{idIs("A-18"), lock(7, tag("write", e(shown, "web-3/4711/api", 7, time.Hour), e(other(2), "web-3/9/api", 6, -time.Hour))), {Key: "total", Value: 1}},
		bson.D{idIs("A-19"), lock(7, tag("write", e(other(3), "web-30/4711/api", 7, time.Hour)))},
		bson.D{idIs("A-20"), lock(7, tag("write"))},
		bson.D{idIs("A-22"), lock(7, tag("write", e(other(6), "web-4/1/api", 0, time.Hour)))},
		bson.D{idIs("A-21"), {Key: "total", Value: 1}},
		idle("idle"), idle("of more", bson.E{Key: "total", Value: 1}),
		bson.D{idIs("held for long"), lock(old, tag("write", e(other(4), "web-9/1/x", old, time.Hour)))},
		bson.D{idIs("of a semaphore"), lock(old, tag("slot", e(other(5), "web-9/1/x", old, time.Hour)))},
		bson.D{idIs("new"), lock(now.UnixMilli(), tag("write"))},
		bson.D{idIs("with done"), {Key: "lock", Value: bson.D{{Key: "fence", Value: old}, {Key: "tags", Value: bson.D{}}, {Key: "done", Value: bson.A{uuidValue(t, shown)}}}}},
	}
	indexes = new([]string)
	client, err := locktest.New().Connect(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
		if fixture.Name(command) == "createIndexes" {
			*indexes = append(*indexes, command.Lookup("indexes").String())
		}
	})))
	if err != nil {
		t.Fatal(err)
	}
	coll = client.Database("shop").Collection("orders")
	if _, err := coll.InsertMany(t.Context(), docs); err != nil {
		t.Fatal(err)
	}
	return coll, indexes
}

func uuidValue(t *testing.T, text string) bson.Binary {
	t.Helper()
	var d struct{ V bson.Binary }
	if err := bson.UnmarshalExtJSON(fmt.Appendf(nil, `{"v": {"$uuid": %q}}`, text), false, &d); err != nil {
		t.Fatal(err)
	}
	return d.V
}

// contents are the documents of a collection.
func contents(t *testing.T, coll *mongo.Collection) (all []string) {
	t.Helper()
	cursor, err := coll.Find(t.Context(), bson.D{})
	if err != nil {
		t.Fatal(err)
	}
	var docs []bson.Raw
	if err := cursor.All(t.Context(), &docs); err != nil {
		t.Fatal(err)
	}
	for _, doc := range docs {
		all = append(all, doc.String())
	}
	return all
}

var (
	mongoshBlock = regexp.MustCompile("(?s)### ([a-z -]+)\n[^#]*?<!-- admin/mongosh_test.go compares this -->\n```js\n(?:db|db\\.getSiblingDB\\(\"doclock\"\\))\\.(?:orders|locks)\\.(\\w+)\\((.*?)\\)\n```")
	mongoshUUID  = regexp.MustCompile(`UUID\("([^"]+)"\)`)
	mongoshLong  = regexp.MustCompile(`Long\("(\d+)"\)`)
	mongoshAgo   = regexp.MustCompile(`Long\(now - (\d+) \* 3600000\)`)
	mongoshNow   = regexp.MustCompile(`\bnow([,}])`)
)

// mongoshLines are those of the page, in extended JSON.
func mongoshLines(t *testing.T, now time.Time) map[string]mongoshLine {
	t.Helper()
	page, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]mongoshLine{}
	for _, m := range mongoshBlock.FindAllStringSubmatch(string(page), -1) {
		text := mongoshUUID.ReplaceAllString(m[3], `{"$$uuid": "$1"}`)
		text = mongoshLong.ReplaceAllString(text, `{"$$numberLong": "$1"}`)
		text = mongoshAgo.ReplaceAllStringFunc(text, func(s string) string {
			hours, _ := strconv.ParseInt(mongoshAgo.FindStringSubmatch(s)[1], 10, 64)
			return fmt.Sprintf(`{"$numberLong": "%d"}`, now.UnixMilli()-hours*3600000)
		})
		text = mongoshNow.ReplaceAllString(text, fmt.Sprintf(`{"$$date": {"$$numberLong": "%d"}}$1`, now.UnixMilli()))
		text = strings.Trim(text, "[]") // of an aggregation's stages
		var parsed struct{ Args []bson.Raw }
		if err := bson.UnmarshalExtJSON([]byte(`{"args": [`+text+`]}`), false, &parsed); err != nil {
			t.Fatalf("%s: %v in %s", m[1], err, text)
		}
		lines[m[1]] = mongoshLine{m[2], parsed.Args}
	}
	return lines
}

// run does what mongosh does with the line.
func (l mongoshLine) run(t *testing.T, coll *mongo.Collection) (found []bson.Raw) {
	t.Helper()
	majority := func(i int) {
		if i >= len(l.args) || l.args[i].Lookup("writeConcern", "w").StringValue() != "majority" {
			t.Errorf("%s has no majority write concern", l.method)
		}
	}
	var err error
	switch l.method {
	case "aggregate":
		var cursor *mongo.Cursor
		if cursor, err = coll.Aggregate(t.Context(), l.args); err == nil {
			err = cursor.All(t.Context(), &found)
		}
	case "updateOne":
		majority(2)
		_, err = coll.UpdateOne(t.Context(), l.args[0], l.args[1])
	case "updateMany":
		majority(2)
		_, err = coll.UpdateMany(t.Context(), l.args[0], l.args[1])
	case "deleteMany":
		majority(1)
		_, err = coll.DeleteMany(t.Context(), l.args[0])
	case "createIndex":
		_, err = coll.Indexes().CreateOne(t.Context(), mongo.IndexModel{Keys: l.args[0], Options: options.Index().SetSparse(l.args[1].Lookup("sparse").Boolean())})
	default:
		t.Fatalf("mongosh has no %s here", l.method)
	}
	if err != nil {
		t.Errorf("%s: %v", l.method, err)
	}
	return found
}
