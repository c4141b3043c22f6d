package admin

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// entryJSON is an [Entry] as JSON.
type entryJSON struct {
	Document  json.RawMessage `json:"document"` // extended JSON, relaxed
	ShardKey  json.RawMessage `json:"shardKey,omitempty"`
	Tag       string          `json:"tag"`
	ID        uuid.UUID       `json:"id"`
	Owner     string          `json:"owner"`
	State     State           `json:"state"`
	Expired   bool            `json:"expired"`
	Fence     int64           `json:"fence,omitempty"`
	Seq       int64           `json:"seq"`
	Since     time.Time       `json:"since"`
	Age       int64           `json:"ageMs"`
	Expires   time.Time       `json:"expires"`
	Remaining int64           `json:"remainingMs"`
	HasToken  bool            `json:"hasToken,omitempty"`
	Until     time.Time       `json:"until,omitzero"`
	WaitsFor  []uuid.UUID     `json:"waitsFor,omitempty"`
}

// MarshalJSON writes the entry for other programs: durations in milliseconds, times
// in RFC 3339 (of the years 0 to 9999), and the _id in MongoDB's relaxed extended
// JSON.
func (e Entry) MarshalJSON() ([]byte, error) {
	document, err := extended(e.DocumentID)
	if err != nil {
		return nil, err
	}
	j := entryJSON{
		Document: document,
		Tag:      e.Tag, ID: e.ID, Owner: e.Owner, State: e.State, Expired: e.Expired(), Fence: e.Fence, Seq: e.Seq,
		Since: inRFC3339(e.Since), Age: e.Age.Milliseconds(), Expires: inRFC3339(e.Expires), Remaining: e.Remaining.Milliseconds(),
		HasToken: e.HasToken, Until: inRFC3339(e.Until), WaitsFor: e.WaitsFor,
	}
	if e.ShardKey != nil {
		if j.ShardKey, err = bson.MarshalExtJSON(e.ShardKey, false, false); err != nil {
			return nil, fmt.Errorf("doclock: an entry's shard key as JSON: %w", err)
		}
	}
	return json.Marshal(j)
}

// inRFC3339 is the nearest time that RFC 3339 can write. Only an outside writer
// makes others.
func inRFC3339(t time.Time) time.Time {
	switch first, last := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC), time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC); {
	case t.Before(first):
		return first
	case t.After(last):
		return last
	default:
		return t
	}
}

// UnmarshalJSON reads what MarshalJSON wrote. So [Break] can take an entry that
// another process has shown.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var j entryJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	read := Entry{
		Tag: j.Tag, ID: j.ID, Owner: j.Owner, State: j.State, Fence: j.Fence, Seq: j.Seq,
		Since: j.Since, Age: time.Duration(j.Age) * time.Millisecond,
		Expires: j.Expires, Remaining: time.Duration(j.Remaining) * time.Millisecond,
		HasToken: j.HasToken, Until: j.Until, WaitsFor: j.WaitsFor,
	}
	if len(j.Document) > 0 {
		var holder bson.Raw
		if err := bson.UnmarshalExtJSON([]byte(valueBefore+string(j.Document)+valueAfter), false, &holder); err != nil {
			return fmt.Errorf("doclock: the document of an entry: %w", err)
		}
		read.DocumentID = holder.Lookup("v")
	}
	if len(j.ShardKey) > 0 {
		if err := bson.UnmarshalExtJSON(j.ShardKey, false, &read.ShardKey); err != nil {
			return fmt.Errorf("doclock: the shard key of an entry: %w", err)
		}
	}
	*e = read
	return nil
}

// lockJSON is a [Lock] as JSON.
type lockJSON struct {
	Document json.RawMessage        `json:"document"`
	Now      time.Time              `json:"now"`
	Fence    int64                  `json:"fence"`
	Entries  []Entry                `json:"entries"`
	InTheWay map[string][]uuid.UUID `json:"inTheWay,omitempty"`
}

// MarshalJSON writes the lock for other programs, as [Entry.MarshalJSON] does.
func (l Lock) MarshalJSON() ([]byte, error) {
	document, err := extended(l.DocumentID)
	if err != nil {
		return nil, err
	}
	return json.Marshal(lockJSON{document, l.Now, l.Fence, l.Entries, l.InTheWay})
}

// What stands around a value in extended JSON, which knows only documents.
const valueBefore, valueAfter = `{"v":`, `}`

// extended is a BSON value in relaxed extended JSON.
func extended(v bson.RawValue) ([]byte, error) {
	if v.IsZero() {
		return []byte("null"), nil
	}
	text, err := bson.MarshalExtJSON(bson.D{{Key: "v", Value: v}}, false, false)
	if err != nil {
		return nil, fmt.Errorf("doclock: a document's _id as JSON: %w", err)
	}
	return text[len(valueBefore) : len(text)-len(valueAfter)], nil
}

// readable is a BSON value as people write it: 7, "A-17", {"$oid":"…"}.
func readable(v bson.RawValue) string {
	text, err := extended(v)
	if err != nil {
		return v.String()
	}
	return string(text)
}
