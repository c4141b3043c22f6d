package admin_test

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/admin"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// bsonValue is any value as a document has it.
func bsonValue(t testing.TB, v any) bson.RawValue {
	t.Helper()
	kind, data, err := bson.MarshalValue(v)
	must(t, err)
	return bson.RawValue{Type: kind, Value: data}
}

func shown(t testing.TB) admin.Entry {
	return admin.Entry{
		DocumentID: bsonValue(t, "A-17"), Tag: "write", ID: uuid.MustParse("f0ef0711-0000-4000-8000-000000000001"), Owner: "web-3/1/api",
		State: admin.Held, Fence: 1795255512860, Seq: 1795255512858,
		Since: at(0), Age: 2 * time.Minute, Expires: at(2*time.Minute + 7900*time.Millisecond), Remaining: 7900 * time.Millisecond,
	}
}

// The JSON of an entry and of a lock is what programs read: it doesn't change.
func TestJSON(t *testing.T) {
	t.Parallel()
	e := shown(t)
	got, err := json.Marshal(e)
	must(t, err)
	const plain = `{"document":"A-17","tag":"write","id":"f0ef0711-0000-4000-8000-000000000001","owner":"web-3/1/api","state":"held",` +
		`"fence":1795255512860,"seq":1795255512858,"since":"2030-06-01T12:00:00Z","expires":"2030-06-01T12:02:07.9Z","expired":false,"ageMs":120000,"remainingMs":7900}`
	if string(got) != plain || e.String() != plain {
		t.Errorf("got  %s\nand  %v\nwant %s", got, e, plain)
	}
	e.State, e.Fence, e.HasToken, e.Until, e.WaitsFor = admin.Waiting, 0, true, at(time.Second), []uuid.UUID{uuid.Nil}
	e.ShardKey, _ = bson.Marshal(bson.D{{Key: "city", Value: "Bern"}})
	l := admin.Lock{DocumentID: bsonValue(t, int64(7)), Now: at(0), Fence: 9, Entries: []admin.Entry{e}, InTheWay: map[string][]uuid.UUID{"read": {}, "write": {uuid.Nil}}}
	got, err = json.Marshal(l)
	must(t, err)
	const all = `{"document":7,"now":"2030-06-01T12:00:00Z","fence":9,"entries":[{"document":"A-17","shardKey":{"city":"Bern"},"tag":"write",` +
		`"id":"f0ef0711-0000-4000-8000-000000000001","owner":"web-3/1/api","state":"waiting","seq":1795255512858,` +
		`"since":"2030-06-01T12:00:00Z","expires":"2030-06-01T12:02:07.9Z","hasToken":true,"until":"2030-06-01T12:00:01Z",` +
		`"waitsFor":["00000000-0000-0000-0000-000000000000"],"expired":false,"ageMs":120000,"remainingMs":7900}],"inTheWay":{"read":[],"write":["00000000-0000-0000-0000-000000000000"]}}`
	if string(got) != all {
		t.Errorf("got  %s\nwant %s", got, all)
	}
	var back struct{ Entries []admin.Entry }
	must(t, json.Unmarshal(got, &back))
	if diff := cmp.Diff([]admin.Entry{e}, back.Entries); diff != "" {
		t.Errorf("read again (-was +is):\n%s", diff)
	}
}

// JSON that is no entry's is an error, and leaves the entry as it was. Dates that RFC
// 3339 can't write, which only an outside writer makes, don't keep an operator from
// the entry.
func TestJSONOfOddEntries(t *testing.T) {
	t.Parallel()
	for _, text := range []string{`{`, `7`, `{"id":"x"}`, `{"document":{"$oid":"x"}}`, `{"document":1,"shardKey":7}`, `{"since":"yesterday"}`} {
		e := shown(t)
		if err := json.Unmarshal([]byte(text), &e); err == nil {
			t.Errorf("%s is an entry: %v", text, e)
		}
		if diff := cmp.Diff(shown(t), e); diff != "" {
			t.Errorf("%s: (-was +is):\n%s", text, diff)
		}
	}
	e := shown(t)
	e.Since, e.Expires, e.Until = time.UnixMilli(math.MinInt64).UTC(), time.UnixMilli(math.MaxInt64).UTC(), time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	e.DocumentID = bson.RawValue{}
	text, err := json.Marshal(e)
	var back admin.Entry
	if err = errors.Join(err, json.Unmarshal(text, &back)); err != nil || !strings.Contains(string(text), `"document":null`) ||
		back.Since.Year() != 0 || back.Expires.Year() != 9999 || back.Until.Year() != 9999 || back.ID != e.ID || back.Fence != e.Fence {
		t.Errorf("%s, %v", text, err)
	}
}
