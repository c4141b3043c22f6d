package docs_test

import (
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rules of monglock's README are read as they are. After the $unset of docs/from-another-lock.md no document has anything of
// monglock's, and what doclock wrote is untouched.
func TestFromMonglock(t *testing.T) {
	var rules relations.Rules
	must(t, json.Unmarshal([]byte(`{
		"read": {"cooperative": ["write"]},
		"write": {"cooperative": ["write"], "assertive": ["read"]}
	}`), &rules))
	entry := bson.M{"timestamp": time.Now().UnixMilli(), "id": bson.NewObjectID()}
	orders := locktest.New(t).Collection("orders", bson.M{"_id": "new"}, bson.M{"_id": "never locked"},
		bson.M{"_id": "held", "lock": bson.M{"active": true, "timestamp": time.Now().UnixMilli()}},
		bson.M{"_id": "free", "lock": bson.M{"active": false, "timestamp": 1}},
		bson.M{"_id": "several", "lock": bson.M{"read": bson.A{entry}, "write": bson.A{}}},
		bson.M{"_id": "a tag named fence", "lock": bson.M{"fence": bson.A{entry}}})
	locks, err := multilock.New(orders, rules)
	must(t, err)
	lease, err := locks.TryAcquire(t.Context(), doclock.ID("new"), "read")
	must(t, err)

	_, line, _ := strings.Cut(source(t, "docs/from-another-lock.md"), "db.orders.updateMany(")
	line, _, _ = strings.Cut(line, "\n)\n")
	line = regexp.MustCompile(`\s+`).ReplaceAllString(line, " ")
	var sent struct{ Args []bson.Raw }
	must(t, bson.UnmarshalExtJSON([]byte(`{"args": [`+line+`]}`), false, &sent))
	_, err = orders.UpdateMany(t.Context(), sent.Args[0], sent.Args[1])
	must(t, err)

	must(t, lease.Update(t.Context(), bson.M{"$set": bson.M{"text": "new"}}))
	if n, err := orders.CountDocuments(t.Context(), bson.M{"lock": bson.M{"$exists": true}}); n != 1 || err != nil {
		t.Error(n, "documents have a lock", err)
	}
}
