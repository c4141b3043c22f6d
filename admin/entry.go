package admin

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Entry is one entry of a lock, as one read found it.
type Entry struct {
	DocumentID bson.RawValue // the document's _id
	ShardKey   bson.Raw      // the values of its shard key, with the option ShardKey; else nil

	Tag   string
	ID    uuid.UUID // of this handle; Nil if an outside writer has damaged it
	Owner string
	State State
	Fence int64 // fencing token; 0 while the entry is waiting
	Seq   int64 // order of arrival

	Since     time.Time     // arrival, on the server's clock
	Age       time.Duration // the time since then
	Expires   time.Time     // the entry may be removed from then on, on the server's clock
	Remaining time.Duration // until then; 0 or less if the entry has expired

	HasToken bool      // the lease was detached, and its token can resume it
	Until    time.Time // up to then a release leaves a remainder; or zero

	// HasTransactions: transactions under it may be open ([doclock.Lease.WithTransaction]).
	// It excludes others also when it has expired, until one of them has settled these.
	HasTransactions bool

	// WaitsFor are the ids of the entries that block a waiting entry. It needs the
	// option [Rules], with the entry's tag.
	WaitsFor []uuid.UUID
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
// excludes nobody, but for what HasTransactions says. Until another command removes it, its holder's guarded writes are
// applied.
func (e Entry) Expired() bool { return e.Remaining <= 0 }

// String describes the entry for people, on one line.
func (e Entry) String() string {
	var b strings.Builder
	owner := "nobody known"
	if e.Owner != "" {
		owner = strconv.Quote(e.Owner)
	}
	fmt.Fprintf(&b, "%q on document %s, %s by %s since %s (%v)",
		e.Tag, cmp.Or(bsonvalue.Readable(e.DocumentID), "null"), e.State, owner, e.Since.Format(time.RFC3339), e.Age.Round(time.Second))
	switch {
	case e.Expires.IsZero():
		b.WriteString(", without an expiry")
	case e.Expired():
		fmt.Fprintf(&b, ", expired %v ago", -e.Remaining.Round(time.Millisecond))
	default:
		fmt.Fprintf(&b, ", %v left", e.Remaining.Round(time.Millisecond))
	}
	if e.Fence != 0 {
		fmt.Fprintf(&b, ", fence %d", e.Fence)
	}
	fmt.Fprintf(&b, ", id %s", e.ID)
	return b.String()
}

// entryOf is the public form of an entry, without its key.
func (d *desk) entryOf(img *engine.Image, e engine.Entry) Entry {
	entry := Entry{
		DocumentID: img.ID,
		ShardKey:   d.shardKey(img),
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

// shardKey are the values that an entry's document is found by beside its _id.
func (d *desk) shardKey(img *engine.Image) bson.Raw {
	beside := bson.D(d.engine.Pin(img))[1:]
	if len(beside) == 0 {
		return nil
	}
	raw, _ := bson.Marshal(beside) // values that were just read
	return raw
}

func idsOf(entries []engine.Entry) []uuid.UUID {
	ids := make([]uuid.UUID, len(entries))
	for i, e := range entries {
		ids[i] = e.ID
	}
	return ids
}

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

	HasTransactions bool `json:"hasTransactions,omitempty"`
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
		HasToken: e.HasToken, Until: inRFC3339(e.Until), WaitsFor: e.WaitsFor, HasTransactions: e.HasTransactions,
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
		HasToken: j.HasToken, Until: j.Until, WaitsFor: j.WaitsFor, HasTransactions: j.HasTransactions,
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

// MarshalJSON writes the lock for other programs, as [Entry.MarshalJSON] does.
func (l Lock) MarshalJSON() ([]byte, error) {
	document, err := extended(l.DocumentID)
	if err != nil {
		return nil, err
	}
	type fields Lock
	return json.Marshal(struct {
		Document json.RawMessage `json:"document"`
		fields
	}{document, fields(l)})
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
