package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Entry is one entry of a lock, as one read found it.
type Entry struct {
	DocumentID bson.RawValue `json:"-"` // the document's _id
	ShardKey   bson.Raw      `json:"-"` // the values of its shard key, with the option ShardKey; else nil

	Tag   string    `json:"tag"`
	ID    uuid.UUID `json:"id"` // of this handle; Nil if an outside writer has damaged it
	Owner string    `json:"owner"`
	State State     `json:"state"`
	Fence int64     `json:"fence,omitempty"` // fencing token; 0 while the entry is waiting
	Seq   int64     `json:"seq"`             // order of arrival

	Since     time.Time     `json:"since"`   // arrival, on the server's clock
	Age       time.Duration `json:"-"`       // the time since then
	Expires   time.Time     `json:"expires"` // the entry may be removed from then on, on the server's clock
	Remaining time.Duration `json:"-"`       // until then; 0 or less if the entry has expired

	HasToken bool      `json:"hasToken,omitempty"` // the lease was detached, and its token can resume it
	Until    time.Time `json:"until,omitzero"`     // up to then a release leaves a remainder; or zero

	// HasTransactions: transactions under it may be open ([doclock.Lease.WithTransaction]).
	// It excludes others also when it has expired, until one of them has settled these.
	HasTransactions bool `json:"hasTransactions,omitempty"`

	// WaitsFor are the ids of the entries that block a waiting entry. It needs the
	// option [Rules], with the entry's tag.
	WaitsFor []uuid.UUID `json:"waitsFor,omitempty"`
}

// State is what an entry is to its holder, whether or not it has expired: see
// [Entry.Expired].
type State string

// The states.
const (
	// Held: the entry was granted.
	Held State = "held"

	// Waiting: the entry has a place in the document's queue. A cooperative waiter
	// is refused, asks again, and leaves no entry: nothing shows it.
	Waiting State = "waiting"

	// Detached: the entry is held, and no handle has it. A token can resume it.
	Detached State = "detached"

	// Remainder: the entry expires at its Until. Nobody holds it, or its holder has
	// never renewed it past Until: the two look the same.
	Remainder State = "remainder"
)

// Expired reports whether the entry had expired when it was read. Such an entry
// excludes nobody, but for what HasTransactions says. Until another command removes
// it, its holder's guarded writes are applied.
func (e Entry) Expired() bool { return e.Remaining <= 0 }

// String is the entry as its JSON, on one line.
func (e Entry) String() string {
	text, err := json.Marshal(e)
	if err != nil {
		return err.Error()
	}
	return oneline.Text(string(text))
}

// entryOf is the public form of an entry, without its key.
func (d *desk) entryOf(img *engine.Image, e engine.Entry) Entry {
	entry := Entry{
		DocumentID: img.ID,
		Tag:        e.Tag,
		ID:         e.ID,
		Owner:      e.Owner,
		State:      stateOf(e),
		Fence:      e.Fence,
		Seq:        e.Seq,
		Since:      e.Since.UTC(),
		Expires:    e.Expires.UTC(),
		HasToken:   e.Key != uuid.Nil,
		Until:      e.Until.UTC(),
		Age:        img.Now.Sub(e.Since),
		Remaining:  e.Expires.Sub(img.Now),

		HasTransactions: e.HasMark(),
	}
	if beside := bson.D(d.engine.Pin(img))[1:]; len(beside) > 0 { // its document is found by them, too
		entry.ShardKey, _ = bson.Marshal(beside) // values that were just read
	}
	if _, known := d.rules[e.Tag]; known && !e.Held() {
		blocking, _ := engine.InTheWay(d.rules, img, e.Tag, &e)
		entry.WaitsFor = idsOf(blocking)
	}
	return entry
}

func stateOf(e engine.Entry) State {
	switch {
	case !e.Held():
		return Waiting
	case e.Detached:
		return Detached
	case !e.Until.IsZero() && e.Until.Equal(e.Expires) && e.Key == uuid.Nil && e.Writes == 0:
		return Remainder
	default:
		return Held
	}
}

// entriesOf are the entries of an image, in the order of their arrival.
func (d *desk) entriesOf(img *engine.Image) []Entry {
	entries := make([]Entry, len(img.Lock.Entries))
	for i, e := range img.Lock.Entries {
		entries[i] = d.entryOf(img, e)
	}
	slices.SortStableFunc(entries, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(a.Tag, b.Tag), bytes.Compare(a.ID[:], b.ID[:]))
	})
	return entries
}

func idsOf(entries []engine.Entry) []uuid.UUID {
	ids := make([]uuid.UUID, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}

// fields are those of an Entry whose JSON is their own.
type fields Entry

// entryJSON is an [Entry] as JSON.
type entryJSON struct {
	Document json.RawMessage `json:"document"` // extended JSON, relaxed
	ShardKey json.RawMessage `json:"shardKey,omitempty"`
	fields
	Expired   bool  `json:"expired"`
	Age       int64 `json:"ageMs"`
	Remaining int64 `json:"remainingMs"`
}

// MarshalJSON writes the entry for other programs: durations in milliseconds, times
// in RFC 3339 (of the years 0 to 9999), and the _id in MongoDB's relaxed extended
// JSON.
func (e Entry) MarshalJSON() ([]byte, error) {
	j := entryJSON{fields: fields(e), Document: extended(e.DocumentID), Expired: e.Expired()}
	j.Age, j.Remaining = e.Age.Milliseconds(), e.Remaining.Milliseconds()
	j.Since, j.Expires, j.Until = inRFC3339(e.Since), inRFC3339(e.Expires), inRFC3339(e.Until)
	if e.ShardKey != nil {
		j.ShardKey = extended(bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: e.ShardKey})
	}
	return json.Marshal(j)
}

// inRFC3339 is the nearest time that RFC 3339 can write. Only an outside writer
// makes others.
func inRFC3339(t time.Time) time.Time {
	if first := time.Date(0, 1, 1, 0, 0, 0, 0, time.UTC); t.Before(first) {
		return first
	}
	if last := time.Date(9999, 12, 31, 23, 59, 59, 0, time.UTC); t.After(last) {
		return last
	}
	return t
}

// UnmarshalJSON reads what MarshalJSON wrote. So [Break] can take an entry that
// another process has shown.
func (e *Entry) UnmarshalJSON(data []byte) error {
	var j entryJSON
	if err := json.Unmarshal(data, &j); err != nil {
		return err
	}
	read := Entry(j.fields)
	read.Age, read.Remaining = time.Duration(j.Age)*time.Millisecond, time.Duration(j.Remaining)*time.Millisecond
	if len(j.Document) > 0 {
		var holder bson.Raw
		if err := bson.UnmarshalExtJSON([]byte(`{"v":`+string(j.Document)+`}`), false, &holder); err != nil {
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

// MarshalJSON writes the lock for other programs, as [Entry.MarshalJSON] does.
func (l Lock) MarshalJSON() ([]byte, error) {
	type fields Lock
	return json.Marshal(struct {
		Document json.RawMessage `json:"document"`
		fields
	}{extended(l.DocumentID), fields(l)})
}

// extended is a BSON value in relaxed extended JSON.
func extended(v bson.RawValue) json.RawMessage {
	return json.RawMessage(cmp.Or(bsonvalue.Readable(v), "null"))
}
