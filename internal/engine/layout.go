package engine

import (
	"errors"
	"fmt"
	"math/big"
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

	markKey   = "fenced"
	slotsKey  = "slots"
	markIDKey = markKey + "." + idKey
)

// version is that of the format: the greatest `v` of a lock that the decisions
// judge. A lock without it has version 1. One that has had a mark has version 2.
const version = 2

// fenceLimit is 2^53: all whole numbers up to it are exact in every numeric
// type.
const fenceLimit = 1 << 53

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
	Mark     Mark      // of the fences of its lease's transactions
}

// Held reports whether the entry is held rather than waiting.
func (e Entry) Held() bool { return e.Fence != 0 }

// HasMark reports whether the entry has had transactions: one of them may be open (rule 28).
func (e Entry) HasMark() bool { return e.Mark.ID != uuid.Nil }

// Lock is the lock field of one document.
type Lock struct {
	Fence   int64
	Entries []Entry // by tag, within a tag in the array's order
	Done    []uuid.UUID
	Broken  int64 // the greatest fencing token of the entries that breaks and take-overs have ended, or 0
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
	errNewer   = errors.New("written by a newer version of the library")
)

// parseLock reads a lock field. It returns errForeign or errNewer for exactly
// those values that the pipelines leave untouched (see ours in decision.go), so that
// both sides agree on what is not a lock. Beside it stands what can be read all the same.
func parseLock(v bson.RawValue) (l Lock, err error) {
	foreign := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf("%w: %s", errForeign, fmt.Sprintf(format, args...))
		}
	}
	if absent(v) {
		return l, nil
	}
	doc, isDocument := v.DocumentOK()
	if !isDocument {
		foreign("it holds a value of type %s", v.Type)
		return l, err
	}
	fields, malformed := doc.Elements()
	if malformed != nil {
		foreign("%v", malformed)
	} else if v := doc.Lookup(versionKey); !absent(v) && bsonvalue.Compare(v, long(version)) > 0 {
		err = fmt.Errorf("%w: its v is %s, and this one knows up to %d", errNewer, bsonvalue.Readable(v), version)
	}
	for _, f := range fields {
		switch v := f.Value(); f.Key() {
		case fenceKey:
			ok := false
			if l.Fence, ok = lastNumber(v); !ok {
				foreign("its fence is %s", bsonvalue.Readable(v))
			}
		case tagsKey:
			l.Entries = parseTags(v, foreign)
		case doneKey:
			l.Done = parseDone(v)
		case brokenKey:
			l.Broken, _ = number(v)
		}
	}
	return l, err
}

func parseTags(v bson.RawValue, foreign func(format string, args ...any)) (entries []Entry) {
	doc, isDocument := v.DocumentOK()
	if !isDocument && !absent(v) {
		foreign("its tags are of type %s", v.Type)
	}
	if !isDocument {
		return nil
	}
	tags, malformed := doc.Elements()
	if malformed != nil {
		foreign("%v", malformed)
	}
	for _, t := range tags {
		tag := t.Key()
		array, isArray := t.Value().ArrayOK()
		switch values, malformed := array.Values(); {
		case absent(t.Value()):
		case !isArray:
			foreign("its tag %q is of type %s", tag, t.Value().Type)
		case malformed != nil:
			foreign("%v", malformed)
		default:
			entries = slices.Grow(entries, len(values))
			for i, v := range values {
				if doc, ok := v.DocumentOK(); ok {
					entries = append(entries, parseEntry(tag, doc))
				} else {
					foreign("entry %d of its tag %q is of type %s", i, tag, v.Type)
				}
			}
		}
	}
	return entries
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
	if e.Mark.ID = parseID(doc.Lookup(markKey, idKey)); e.HasMark() {
		slots, _ := number(doc.Lookup(markKey, slotsKey))
		e.Mark.Slots = int(min(max(slots, 1), mostSlots))
	}
	return e
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

// lastNumber reads lock.fence. It accepts any number from 0 up to, and without,
// fenceLimit; a missing or null field is 0. Any other value makes the field
// foreign (see ours in decision.go).
func lastNumber(v bson.RawValue) (n int64, ok bool) {
	switch v.Type {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return 0, true
	case bson.TypeInt32, bson.TypeInt64:
		n = v.AsInt64()
		return n, n >= 0 && n < fenceLimit
	case bson.TypeDouble:
		f := v.Double()
		if f >= 0 && f < fenceLimit { // NaN is neither
			return int64(f), true
		}
	case bson.TypeDecimal128:
		r, isNumber := new(big.Rat).SetString(v.Decimal128().String())
		if isNumber && r.Sign() >= 0 && r.Cmp(big.NewRat(fenceLimit, 1)) < 0 {
			return new(big.Int).Quo(r.Num(), r.Denom()).Int64(), true
		}
	}
	return 0, false
}
