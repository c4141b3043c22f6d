package engine

import (
	"bytes"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// stored is the whole lock field that a test expects.
type stored struct {
	fence int64
	tags  rows
	done  []uuid.UUID
}

type rows map[string][]row

// row is an entry; its times count from the epoch. A zero fence, n, until or key
// is absent, and no owner is the peers' own.
type row struct {
	id             uuid.UUID
	owner          string
	seq, fence     int64
	since, expires time.Duration
	n              int64
	until          time.Duration
	key            uuid.UUID
	detached       bool
}

func (s stored) document() bson.M {
	tags := bson.M{}
	for tag, entries := range s.tags {
		list := bson.A{}
		for _, e := range entries {
			list = append(list, e.document())
		}
		tags[tag] = list
	}
	doc := bson.M{"fence": s.fence, "tags": tags}
	if s.done != nil {
		done := bson.A{}
		for _, id := range s.done {
			done = append(done, binaryID(id))
		}
		doc["done"] = done
	}
	return doc
}

func (r row) document() bson.M {
	doc := bson.M{
		"id":      binaryID(r.id),
		"owner":   "test",
		"seq":     r.seq,
		"since":   bson.NewDateTimeFromTime(epoch.Add(r.since)),
		"expires": bson.NewDateTimeFromTime(epoch.Add(r.expires)),
	}
	if r.owner != "" {
		doc["owner"] = r.owner
	}
	if r.fence != 0 {
		doc["fence"] = r.fence
	}
	if r.n != 0 {
		doc["n"] = r.n
	}
	if r.until != 0 {
		doc["until"] = bson.NewDateTimeFromTime(epoch.Add(r.until))
	}
	if r.key != uuid.Nil {
		doc["key"] = binaryID(r.key)
	}
	if r.detached {
		doc["detached"] = true
	}
	return doc
}

func binaryID(id uuid.UUID) bson.Binary { return bson.Binary{Subtype: 4, Data: id[:]} }

// is checks that the lock field is exactly this one: values, types, and no
// other fields.
func (w *world) is(want stored) {
	w.Helper()
	w.fieldIs(DefaultField, want.document())
}

func (w *world) fieldIs(field string, want any) {
	w.Helper()
	if diff := cmp.Diff(want, w.decoded()[field]); diff != "" {
		w.Fatalf("field %q (-want +stored):\n%s", field, diff)
	}
}

// hasNoLock checks that the document has no lock field.
func (w *world) hasNoLock() {
	w.Helper()
	if lock, there := w.decoded()[DefaultField]; there {
		w.Fatalf("there is a lock field: %v", lock)
	}
}

// decoded is the document, without the order of its fields.
func (w *world) decoded() bson.M {
	w.Helper()
	return decodedM(w, w.Stored())
}

func decodedM(t interface {
	Helper()
	Fatal(...any)
}, raw bson.Raw) bson.M {
	t.Helper()
	decoder := bson.NewDecoder(bson.NewDocumentReader(bytes.NewReader(raw)))
	decoder.DefaultDocumentM()
	var doc bson.M
	if err := decoder.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	return doc
}
