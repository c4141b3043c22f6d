package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Outcome is what an answered command means.
type Outcome uint8

// The outcomes of the protocol's commands.
const (
	NotFound Outcome = iota // no document matches
	Granted                 // the entry is held
	Waiting                 // the entry is there and waits
	Conflict                // others are in the way, nothing was written
	Renewed                 // the entry's expiry was moved
	Released                // the entry was there, with our token, and is gone
	Applied                 // the guarded write was done
	Lost                    // the entry is not there any more, or never was
)

func (o Outcome) String() string {
	return [...]string{"not found", "granted", "waiting", "conflict", "renewed", "released", "applied", "lost"}[o]
}

// Answer is what a command was answered with.
type Answer struct {
	Outcome Outcome
	Image   *Image  // where the command asks for one and matched a document; else nil
	Sent    Reading // this machine's clocks before the command was sent; also beside an error
}

// Image is the document as a command left it: the post-image that the command
// answers with, or what a read shows.
type Image struct {
	ID   bson.RawValue
	Lock Lock
	Now  time.Time // the server's clock when it judged; zero in a whole image

	raw bson.Raw
}

// Names of what the projection computes: flat, because a nested one would run
// through a user's array of that name, and not to be met by accident.
const (
	nowKey = "__doclockNow"
	docKey = "__doclockDoc"
)

// readImage decodes both shapes: the projected one and the whole document. A
// nil Image means that no document matched.
func (e *Engine) readImage(result *mongo.SingleResult) (*Image, error) {
	raw, err := result.Raw()
	if errors.Is(err, mongo.ErrNoDocuments) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	img := &Image{ID: clone(raw.Lookup("_id")), raw: raw}
	if now, err := raw.LookupErr(nowKey); err == nil {
		img.Now, _ = now.TimeOK()
	}
	field, _ := raw.LookupErr(e.field) // absent is a lock that nobody took yet
	img.Lock, err = parseLock(field)
	if err != nil {
		return img, &Failure{Certain: true, Cause: CauseForeign, err: fmt.Errorf("field %q of document %s: %w", e.field, img.ID, err)}
	}
	return img, nil
}

// Whole reports whether the image is the whole document, with no clock beside
// it: what a compare-and-set asks for, and what a retried command answers with,
// whatever it asked for. That one is stored, and as old as the first execution.
func (img *Image) Whole() bool { return img.Now.IsZero() }

// Decode stores the document as of the grant into target, without the lock
// field, so that saving it back can't bring an old lock back. It goes through
// the caller's registry and BSON options.
func (e *Engine) Decode(img *Image, target any) error {
	doc := img.raw
	if !img.Whole() {
		nested, err := img.raw.LookupErr(docKey)
		if err != nil {
			return fmt.Errorf("the image holds no document: %w", err)
		}
		doc = nested.Document()
	}
	doc, err := without(doc, e.field)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	return e.encoder.decode(doc, target)
}

// ownEntry reads what a release answers: the ids and tokens of the own tag, or
// the whole document where it is a retried command's stored image. The release
// is done, whatever else stands there.
func (e *Engine) ownEntry(image bson.Raw, g Grant) Entry {
	entries, _ := image.LookupErr(e.field, tagsKey, g.Tag)
	for _, entry := range readEntries(g.Tag, entries) {
		if entry.ID == g.ID {
			return entry
		}
	}
	return Entry{}
}

// allEntries reads the entries of all tags, and passes over what is none, as
// the guard does.
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

// answer is what an acquire, a confirm or a handoff was answered with. The image
// is nil where no document matched.
func (img *Image) answer(sent Reading, r Request, noDocument, noEntry Outcome) Answer {
	if img == nil {
		return Answer{Outcome: noDocument, Sent: sent}
	}
	return Answer{Outcome: img.arrived(r.Tag, r.ID, noEntry), Image: img, Sent: sent}
}

// arrived says what became of the request with the id.
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
