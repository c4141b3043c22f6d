package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
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
	if raw == nil || err != nil {
		return nil, err
	}
	return e.imageOf(raw)
}

// firstImage is readImage of a read for one document.
func (e *Engine) firstImage(docs []bson.Raw, err error) (*Image, error) {
	if len(docs) == 0 {
		return nil, err
	}
	return e.readImage(docs[0], err)
}

// imageOf is the image that a server's answer holds. If the lock field is
// foreign, it is an image without a lock, beside the error.
func (e *Engine) imageOf(raw bson.Raw) (*Image, error) {
	img := &Image{ID: clone(raw.Lookup("_id")), raw: raw}
	img.Now, _ = raw.Lookup(nowKey).TimeOK()
	lock, err := parseLock(raw.Lookup(e.Field)) // an absent field is a lock that has never been acquired
	if err == nil {
		img.Lock = lock
		return img, nil
	}
	if errors.Is(err, errForeign) {
		err = fmt.Errorf("%w; the option doclock.Field chooses another field", err)
	}
	return img, &Failure{Nothing: true, Cause: CauseForeign, err: fmt.Errorf("field %q of document %s: %w", e.Field, bsonvalue.Readable(img.ID), err)}
}

// Decode stores the document as of the grant in target. It leaves out the lock
// field, so that saving the document can't bring an old lock back. It uses the
// caller's registry and BSON options.
func (e *Engine) Decode(img *Image, target any) error {
	nested, err := img.raw.LookupErr(docKey)
	if err != nil {
		return fmt.Errorf("the image holds no document: %w", err)
	}
	doc, err := without(nested.Document(), e.Field)
	if err != nil {
		return fmt.Errorf("read the document: %w", err)
	}
	return e.encoder.decode(doc, target)
}

// allEntries reads the entries of all tags. Like the guard, it passes over
// values that are no entries.
func (e *Engine) allEntries(image bson.Raw) []Entry {
	lock, _ := parseLock(image.Lookup(e.Field))
	return lock.Entries
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

// exhausted is the failure of a request that the decisions refuse because no fence is
// left for it (see exhausted in decision.go), or nil.
func (e *Engine) exhausted(img *Image) error {
	now := img.Now.UnixMilli()
	switch {
	case img.Lock.Fence+1 >= fenceLimit:
		return &Failure{Nothing: true, Cause: CauseForeign, err: fmt.Errorf("field %q of document %s: %w: its fence is %d, the last one", e.Field, img.ID, errForeign, img.Lock.Fence)}
	case !img.Now.IsZero() && (now <= 0 || now >= fenceLimit):
		return &Failure{Nothing: true, Cause: CauseUnsupported, err: fmt.Errorf("its clock is at %v, and fencing tokens are the milliseconds since 1970; set the clock", img.Now)}
	default:
		return nil
	}
}

// The proofs of negative answers (rule 27). A deposed primary, or a router that still
// uses one, finds no entry that its successor has granted. It answers at once, also with
// majority write concern: a command that changes nothing waits for the member's last
// write, which may be committed. A linearizable read is answered only by a primary that
// a majority of the members still follows.

// Whether the server has members, one of which may be a deposed primary.
const (
	unasked int32 = iota
	several
	single
)

// HasMembers reports whether the server has members, or is a router: others have no
// transactions. It asks once, by the driver's own command for that. A server
// that doesn't know it (MongoDB 4.4.0) refuses the read, if it has no members.
func (e *Engine) HasMembers(ctx context.Context) (bool, error) {
	if e.members.Load() == unasked {
		var hello bson.Raw
		err := e.failed(guard(func() (err error) {
			hello, err = e.coll.Database().Client().Database("admin").RunCommand(ctx, bson.D{{Key: "hello", Value: 1}}).Raw()
			return err
		}))
		router, _ := hello.Lookup("msg").StringValueOK()
		_, noSet := hello.LookupErr("setName")
		switch {
		case err == nil && noSet != nil && router != "isdbgrid":
			e.members.Store(single)
		case err == nil, AsFailure(err).Refused():
			e.members.Store(several)
		default:
			return false, err
		}
	}
	return e.members.Load() == several, nil
}

// newest sends a read, which is linearizable where the server has members. It returns the
// documents, and the clocks from before the send.
func (e *Engine) newest(ctx context.Context, s search) (docs []bson.Raw, sent Reading, err error) {
	if sent, err = e.begin(ctx); err != nil {
		return nil, sent, err
	}
	has, err := e.HasMembers(ctx)
	if err != nil {
		return nil, sent, err
	}
	if has {
		docs, err = e.all(ctx, linearizableRead, s)
		if err == nil || AsFailure(err).Cause != CauseUnsupported {
			return docs, sent, err
		}
		e.members.Store(single)
	}
	docs, err = e.all(ctx, majorityRead, s)
	return docs, sent, err
}

// lost is the answer of a command that has found no entry of its own, after the proof:
// where the server has members, a read of the document. The answer has what it shows.
func (e *Engine) lost(ctx context.Context, a Answer, err error, pin Pin, own func(Entry) bool) (Answer, error) {
	a.Outcome = Lost
	if err != nil {
		return a, err
	}
	has, err := e.HasMembers(ctx)
	if err != nil {
		return a, unproven(err)
	}
	if !has {
		return a, nil
	}
	return e.proven(ctx, a, pin, own, "the server that answered is no longer the primary")
}

// proven is the answer of a command that has found no entry of its own, after a read of
// the document. Why it has missed an entry that is there is for the error.
func (e *Engine) proven(ctx context.Context, a Answer, pin Pin, own func(Entry) bool, why string) (Answer, error) {
	img, err := e.Read(ctx, pin)
	switch {
	case img != nil && slices.ContainsFunc(e.allEntries(img.raw), own):
		return a, race(why)
	case err != nil && img == nil:
		return a, unproven(err)
	default: // a foreign lock has no entries
		a.Image, a.Gone = img, img == nil
		return a, nil
	}
}

// Absent proves that no document matches the filter of an acquire that was
// answered with NotFound. It sends nothing if the server has no members, and else a
// read. The error is a Failure that passes if a document matches after all, or one
// that is Unproven.
func (e *Engine) Absent(ctx context.Context, f Filter) error { return e.absent(ctx, f.doc) }

func (e *Engine) absent(ctx context.Context, filter any) error {
	has, err := e.HasMembers(ctx)
	if err != nil {
		return unproven(err)
	}
	if !has {
		return nil
	}
	return e.missing(ctx, filter)
}

// missing is absent, by a read in any case.
func (e *Engine) missing(ctx context.Context, filter any) error {
	docs, _, err := e.newest(ctx, search{comment: forProof, filter: filter, fields: justID})
	switch {
	case len(docs) > 0:
		return race("the server that answered is no longer the primary")
	case err != nil:
		return unproven(err)
	default:
		return nil
	}
}

// unproven is the failure of a command that has found nothing, where the proof has
// failed.
func unproven(err error) error {
	f := *AsFailure(err)
	f.Nothing, f.Unproven = true, true
	return &f
}

// Read reads the newest image without changing anything: it gives the verdict on
// writes of unknown outcome. The image is nil if the document does not exist.
func (e *Engine) Read(ctx context.Context, pin Pin) (img *Image, err error) {
	return e.read(ctx, bson.D(pin))
}

// read reads the newest image of a document that the filter matches.
func (e *Engine) read(ctx context.Context, filter any) (*Image, error) {
	docs, _, err := e.newest(ctx, search{comment: forProof, filter: filter, fields: e.projection(Request{})})
	return e.firstImage(docs, err)
}

// longest is a bound of the times that an image's dates lead to: people may have written
// any date, and callers add to the time.
const longest = 100 * 365 * 24 * time.Hour

// InTheWay lists the live entries that block an arrival under tag (own is nil),
// or that block the waiting entry own. It also returns the longest time until
// enough of them have expired. The server makes the decision; this function
// explains it, from the image and with the image's clock. An expired entry with a mark is
// there until that is settled, which may take a second.
func InTheWay(rules relations.Rules, img *Image, tag string, own *Entry) ([]Entry, time.Duration) {
	end := func(e Entry) time.Time {
		if e.HasMark() && !e.Expires.After(img.Now) {
			return img.Now.Add(time.Second)
		}
		return e.Expires
	}
	byTag := map[string][]Entry{}
	for _, other := range img.Lock.Entries {
		dead := !end(other).After(img.Now)
		self := own != nil && other.ID == own.ID
		later := own != nil && !other.Held() && other.Seq >= own.Seq
		if !dead && !self && !later {
			byTag[other.Tag] = append(byTag[other.Tag], other)
		}
	}
	effect := relations.Kind.Arriving
	if own != nil {
		effect = relations.Kind.Waiting
	}
	var blocking []Entry
	var free time.Time
	for _, other := range slices.Sorted(maps.Keys(byTag)) {
		entries := byTag[other]
		r := rules[tag][other]
		if _, known := rules[other]; !known {
			r.Kind = relations.Cooperative // unknown tags are respected
		}
		if effect(r.Kind) == relations.Ignored || len(entries) <= r.Allow {
			continue
		}
		blocking = append(blocking, entries...)
		slices.SortFunc(entries, func(a, b Entry) int { return end(a).Compare(end(b)) })
		if t := end(entries[len(entries)-1-r.Allow]); t.After(free) {
			free = t
		}
	}
	if len(blocking) == 0 {
		return blocking, 0
	}
	return blocking, min(free.Sub(img.Now), longest)
}

// Stuck is the image with those live entries that stay until the ones with the ids held
// are released: these, and each waiting entry that more of them keep back than its
// relation allows. An arrival can't wait for what is in its way here. Nobody knows what
// an entry of an unknown tag waits for.
func (e *Engine) Stuck(img *Image, held []uuid.UUID) *Image {
	stuck := &Image{ID: img.ID, Now: img.Now}
	if len(held) == 0 {
		return stuck
	}
	var waiting []Entry
	for _, other := range img.Lock.Entries {
		_, known := e.rules[other.Tag]
		switch {
		case !other.Expires.After(img.Now) && !other.HasMark():
		case slices.Contains(held, other.ID):
			stuck.Lock.Entries = append(stuck.Lock.Entries, other)
		case known && !other.Held():
			waiting = append(waiting, other)
		}
	}
	slices.SortFunc(waiting, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) }) // none waits for a later one
	for _, w := range waiting {
		if blocking, _ := e.InTheWay(stuck, w.Tag, &w); len(blocking) > 0 {
			stuck.Lock.Entries = append(stuck.Lock.Entries, w)
		}
	}
	return stuck
}

// InTheWay is [InTheWay] by the engine's rules.
func (e *Engine) InTheWay(img *Image, tag string, own *Entry) ([]Entry, time.Duration) {
	return InTheWay(e.rules, img, tag, own)
}
