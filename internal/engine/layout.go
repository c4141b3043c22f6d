package engine

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Names in the document. They are the wire format: other programs, older
// versions of this library and people with a shell read them.
const (
	versionKey = "v"
	fenceKey   = "fence"
	tagsKey    = "tags"
	doneKey    = "done"
	brokenKey  = "broken"
	idKey      = "id"
	ownerKey   = "owner"
	seqKey     = "seq"
	sinceKey   = "since"
	expiresKey = "expires"
	writeKey   = "n"

	tokenKey    = "key"
	detachedKey = "detached"
	untilKey    = "until"
)

// version is that of the format: the greatest `v` of a lock that the decisions
// judge. Nothing writes it yet; a lock without it has version 1.
const version = 1

// doneCap is the number of ids that `done` keeps.
const doneCap = 8

// Entry is one entry of a lock, held or waiting, as it is in the document.
type Entry struct {
	Tag     string
	ID      uuid.UUID
	Owner   string
	Seq     int64     // order of arrival
	Fence   int64     // fencing token; 0 while the entry is waiting
	Since   time.Time // arrival, on the server's clock
	Expires time.Time // on the server's clock; zero is long expired
	Writes  int64     // number of the last guarded write that kept the lock

	Key      uuid.UUID // of the token that resumes it; Nil before the first detach
	Detached bool      // no handle has it
	Until    time.Time // a release before this time leaves a remainder; zero for none
}

// Held reports whether the entry is held rather than waiting.
func (e Entry) Held() bool { return e.Fence != 0 }

// Lock is the lock field of one document.
type Lock struct {
	Fence   int64
	Entries []Entry // by tag, within a tag in the array's order
	Done    []uuid.UUID
	Broken  int64 // the greatest fencing token of the entries that an operator has removed, or 0
}

// Find returns the entry with this tag and id.
func (l Lock) Find(tag string, id uuid.UUID) (Entry, bool) {
	return l.first(func(e *Entry) bool { return e.ID == id && e.Tag == tag })
}

// Keyed returns the held entry of the tag that has the key of a token.
func (l Lock) Keyed(tag string, key uuid.UUID) (Entry, bool) {
	return l.first(func(e *Entry) bool { return e.Tag == tag && e.Key == key && e.Held() })
}

func (l Lock) first(is func(*Entry) bool) (Entry, bool) {
	for i := range l.Entries {
		if is(&l.Entries[i]) {
			return l.Entries[i], true
		}
	}
	return Entry{}, false
}

// FinishedBy reports whether `done` still holds this id: the lease ended with a
// write.
func (l Lock) FinishedBy(id uuid.UUID) bool { return slices.Contains(l.Done, id) }

var (
	errForeign = errors.New("not a lock of doclock's")
	errNewer   = errors.New("written by a newer version of doclock")
)

// parseLock reads a lock field. It returns errForeign or errNewer for exactly
// those values that the pipelines leave untouched (see ours in expr.go), so that
// both sides agree on what is not a lock.
func parseLock(v bson.RawValue) (Lock, error) {
	if absent(v) {
		return Lock{}, nil
	}
	doc, ok := v.DocumentOK()
	if !ok {
		return Lock{}, fmt.Errorf("%w: it holds a value of type %s", errForeign, v.Type)
	}
	var l Lock
	fields, err := doc.Elements()
	if err != nil {
		return Lock{}, fmt.Errorf("%w: %v", errForeign, err)
	}
	if v := doc.Lookup(versionKey); !absent(v) && bsonvalue.Compare(v, long(version)) > 0 {
		return Lock{}, fmt.Errorf("%w: its v is %s, and this one knows up to %d", errNewer, bsonvalue.Readable(v), version)
	}
	for _, f := range fields {
		switch v := f.Value(); f.Key() {
		case fenceKey:
			if l.Fence, ok = lastNumber(v); !ok {
				return Lock{}, fmt.Errorf("%w: its fence is %s", errForeign, bsonvalue.Readable(v))
			}
		case tagsKey:
			if l.Entries, err = parseTags(v); err != nil {
				return Lock{}, err
			}
		case doneKey:
			l.Done = parseDone(v)
		case brokenKey:
			l.Broken, _ = number(v)
		}
	}
	return l, nil
}

func parseTags(v bson.RawValue) ([]Entry, error) {
	if absent(v) {
		return nil, nil
	}
	doc, ok := v.DocumentOK()
	if !ok {
		return nil, fmt.Errorf("%w: its tags are of type %s", errForeign, v.Type)
	}
	tags, err := doc.Elements()
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errForeign, err)
	}
	var entries []Entry
	for _, t := range tags {
		more, err := parseEntries(t.Key(), t.Value())
		if err != nil {
			return nil, err
		}
		entries = append(entries, more...)
	}
	return entries, nil
}

func parseEntries(tag string, v bson.RawValue) ([]Entry, error) {
	if absent(v) {
		return nil, nil
	}
	array, ok := v.ArrayOK()
	if !ok {
		return nil, fmt.Errorf("%w: its tag %q is of type %s", errForeign, tag, v.Type)
	}
	values, err := array.Values()
	if err != nil {
		return nil, fmt.Errorf("%w: %v", errForeign, err)
	}
	entries := make([]Entry, len(values))
	for i, v := range values {
		doc, ok := v.DocumentOK()
		if !ok {
			return nil, fmt.Errorf("%w: entry %d of its tag %q is of type %s", errForeign, i, tag, v.Type)
		}
		entries[i] = parseEntry(tag, doc)
	}
	return entries, nil
}

// parseEntry never fails. A field that it can't read stays zero, so that people
// see as much as possible of a damaged entry.
func parseEntry(tag string, doc bson.Raw) Entry {
	e := Entry{Tag: tag, ID: parseID(doc.Lookup(idKey))}
	e.Owner, _ = doc.Lookup(ownerKey).StringValueOK()
	e.Seq, _ = number(doc.Lookup(seqKey))
	e.Fence, _ = number(doc.Lookup(fenceKey))
	e.Since, _ = doc.Lookup(sinceKey).TimeOK()
	e.Expires, _ = doc.Lookup(expiresKey).TimeOK()
	e.Writes, _ = number(doc.Lookup(writeKey))
	e.Key = parseID(doc.Lookup(tokenKey))
	e.Detached, _ = doc.Lookup(detachedKey).BooleanOK()
	e.Until, _ = doc.Lookup(untilKey).TimeOK()
	return e
}

// newEntry has the expressions of an entry that a pipeline makes. A nil one is left
// out.
type newEntry struct{ id, owner, seq, fence, since, expires, key, until expr }

// document has the fields in the order that all entries have.
func (e newEntry) document() (doc bson.D) {
	for _, field := range (bson.D{
		{Key: idKey, Value: e.id},
		{Key: ownerKey, Value: e.owner},
		{Key: seqKey, Value: e.seq},
		{Key: fenceKey, Value: e.fence},
		{Key: sinceKey, Value: e.since},
		{Key: expiresKey, Value: e.expires},
		{Key: tokenKey, Value: e.key},
		{Key: untilKey, Value: e.until},
	}) {
		if field.Value != nil {
			doc = append(doc, field)
		}
	}
	return doc
}

// inherited is what the entry $$e passes on to one that takes its place under
// another id.
func inherited() newEntry {
	return newEntry{owner: "$$e." + ownerKey, seq: "$$e." + seqKey, fence: "$$e." + fenceKey, since: "$$e." + sinceKey}
}

func parseDone(v bson.RawValue) []uuid.UUID {
	array, ok := v.ArrayOK()
	if !ok {
		return nil
	}
	values, _ := array.Values()
	ids := make([]uuid.UUID, len(values))
	for i, v := range values {
		ids[i] = parseID(v)
	}
	return ids
}

func parseID(v bson.RawValue) uuid.UUID {
	if subtype, data, ok := v.BinaryOK(); ok && subtype == bson.TypeBinaryUUID && len(data) == len(uuid.UUID{}) {
		return uuid.UUID(data)
	}
	return uuid.Nil
}

func absent(v bson.RawValue) bool {
	return v.Type == 0 || v.Type == bson.TypeNull
}

// number reads a BSON number. A shell or a restore may have turned a long into
// a double or an int.
func number(v bson.RawValue) (int64, bool) {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble:
		return v.AsInt64OK()
	default:
		return 0, false
	}
}

// idValue is an id in the document's form.
func idValue(id uuid.UUID) bson.RawValue {
	data := append(make([]byte, 0, 5+len(id)), byte(len(id)), 0, 0, 0, bson.TypeBinaryUUID) // every command has one or two
	return bson.RawValue{Type: bson.TypeBinary, Value: append(data, id[:]...)}
}

// long is a number in the document's form. It needs no encoder.
func long(n int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

// value marshals a part of a command that is the library's own. In a command it
// may stand beside the caller's parts, but the caller's registry and BSON
// options can't alter it.
func value(v any) bson.RawValue {
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(fmt.Sprintf("doclock: marshal a value of the library's own: %v", err))
	}
	return bson.RawValue{Type: kind, Value: data}
}
