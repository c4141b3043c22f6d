package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Outcome is the meaning of an answered command. The zero Outcome is none: a command
// without an answer has no verdict.
type Outcome uint8

// The outcomes of the protocol's commands.
const (
	NotFound Outcome = iota + 1 // no document matches
	Granted                     // the entry is held
	Waiting                     // the entry is in the document and waits
	Conflict                    // others are in the way, nothing was written
	Renewed                     // the entry's expiry was moved
	Released                    // the entry was there, with our fencing token, and is removed
	Applied                     // the guarded write was done
	Lost                        // the entry is not there
	Detached                    // the entry was there, with our fencing token, and is the token's now
)

func (o Outcome) String() string {
	return [...]string{"no answer", "not found", "granted", "waiting", "conflict", "renewed", "released", "applied", "lost", "detached"}[o]
}

// Answer is the answer to a command.
type Answer struct {
	Outcome Outcome
	Image   *Image  // nil if the command asks for none or matched no document; of a Lost, the proof's, if one was read
	Gone    bool    // of a Lost: it is known that there is no document
	Sent    Reading // this machine's clocks before the command was sent; also beside an error
}

// Image is the document, or a part of it, after a command: the post-image of
// the command, or the result of a read.
type Image struct {
	ID   bson.RawValue
	Lock Lock
	Now  time.Time // the server's clock at the decision

	raw bson.Raw
}

// Names of the projection's computed fields. They are flat, because a nested
// one would run through a user's array of that name. They are long, so that no
// user's field has the same name by accident.
const (
	nowKey = "__doclockNow"
	docKey = "__doclockDoc"
)

// readImage decodes the projection that a command or a read asked for. A nil Image
// means that no document matched.
func (e *Engine) readImage(raw bson.Raw, err error) (*Image, error) {
	switch {
	case errors.Is(err, mongo.ErrNoDocuments):
		return nil, nil
	case raw == nil || err != nil:
		return nil, err
	default:
		return e.imageOf(raw)
	}
}

// imageOf is the image that a server's answer holds. If the lock field is
// foreign, it is an image without a lock, beside the error.
func (e *Engine) imageOf(raw bson.Raw) (*Image, error) {
	img := &Image{ID: clone(raw.Lookup("_id")), raw: raw}
	if now, err := raw.LookupErr(nowKey); err == nil {
		img.Now, _ = now.TimeOK()
	}
	field, _ := raw.LookupErr(e.field) // an absent field is a lock that has never been acquired
	var err error
	img.Lock, err = parseLock(field)
	if errors.Is(err, errForeign) {
		err = fmt.Errorf("%w; the option doclock.Field chooses another field", err)
	}
	if err != nil {
		return img, &Failure{Nothing: true, Cause: CauseForeign, err: fmt.Errorf("field %q of document %s: %w", e.field, bsonvalue.Readable(img.ID), err)}
	}
	return img, nil
}

// Decode stores the document as of the grant in target. It leaves out the lock
// field, so that saving the document can't bring an old lock back. It uses the
// caller's registry and BSON options.
func (e *Engine) Decode(img *Image, target any) error {
	nested, err := img.raw.LookupErr(docKey)
	if err != nil {
		return fmt.Errorf("the image holds no document: %w", err)
	}
	doc, err := without(nested.Document(), e.field)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	return e.encoder.decode(doc, target)
}

// ownEntry reads a release's answer: the ids and fencing tokens of the own tag.
// The release is done, whatever else the answer holds.
func (e *Engine) ownEntry(image bson.Raw, g Grant) Entry {
	entries, _ := image.LookupErr(e.field, tagsKey, g.Tag)
	for _, entry := range readEntries(g.Tag, entries) {
		if entry.ID == g.ID {
			return entry
		}
	}
	return Entry{}
}

// allEntries reads the entries of all tags. Like the guard, it passes over
// values that are no entries.
func (e *Engine) allEntries(image bson.Raw) []Entry {
	var all []Entry
	tags, _ := image.LookupErr(e.field, tagsKey)
	doc, _ := tags.DocumentOK()
	elements, _ := doc.Elements()
	for _, t := range elements {
		all = append(all, readEntries(t.Key(), t.Value())...)
	}
	return all
}

func readEntries(tag string, v bson.RawValue) []Entry {
	var entries []Entry
	array, _ := v.ArrayOK()
	values, _ := array.Values()
	for _, v := range values {
		if doc, ok := v.DocumentOK(); ok {
			entries = append(entries, parseEntry(tag, doc))
		}
	}
	return entries
}

// answer is the answer to an acquire, a confirm, a resume or a handoff. The image is nil
// if no document matched. What was refused because no fence is left is a failure.
func (e *Engine) answer(img *Image, err error, sent Reading, r Request, noDocument, noEntry Outcome) (Answer, error) {
	if img == nil {
		return Answer{Outcome: noDocument, Sent: sent}, err
	}
	a := Answer{Outcome: img.arrived(r.Tag, r.ID, noEntry), Image: img, Sent: sent}
	if err == nil && a.Outcome == Conflict {
		err = e.exhausted(img)
	}
	return a, err
}

// arrived is the outcome of the request with this id.
func (img *Image) arrived(tag string, id uuid.UUID, noEntry Outcome) Outcome {
	own, there := img.Lock.Find(tag, id)
	switch {
	case !there:
		return noEntry
	case own.Held():
		return Granted
	default:
		return Waiting
	}
}
