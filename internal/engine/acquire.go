package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Request describes the entry of an acquire or a confirm.
type Request struct {
	Tag      string
	ID       uuid.UUID
	Try      bool // refuse rather than wait
	Document bool // the image holds the document as of the grant
	Terms    Terms

	// TakeOver names entries that the acquire ends, by id and fencing token, or 0 for one that
	// waits. It is granted then, or writes nothing.
	TakeOver []Entry

	// Settled are marks of entries of the document: see [Engine.Settle]. They keep nobody out
	// who names them within a day.
	Settled []uuid.UUID
}

// Acquire sends one acquire. The entry is granted, or joins as a waiting entry,
// or is refused and leaves no trace. A repeat with the same id extends the
// entry that it finds. The image is nil if the outcome is NotFound. With
// Config.Upsert two more commands make a missing document first, if the filter matches it
// then.
func (e *Engine) Acquire(ctx context.Context, f Filter, r Request) (Answer, error) {
	c := change{comment: forAcquire, query: f.doc, sort: f.sort, update: e.arriving(r)}
	img, sent, err := e.show(ctx, c, r)
	if img == nil && err == nil && e.Upsert && f.Unmet == "" {
		img, sent, err = e.insertAndModify(ctx, f, c, r)
	}
	return e.answer(img, err, sent, r, NotFound, Conflict)
}

// Confirm sends one confirm for a waiting entry. The entry is granted, or its
// waiting is extended, or it is Lost. The image is nil if the document does not
// exist. If the document meets the filter's conditions no more, the outcome is NotFound, and
// the entry may still be there.
func (e *Engine) Confirm(ctx context.Context, f Filter, pin Pin, r Request) (Answer, error) {
	query := any(bson.D(pin))
	if f.conditions != nil {
		query = pin.and(bson.E{Key: "$and", Value: bson.A{f.conditions}})
	}
	img, sent, err := e.show(ctx, change{comment: forConfirm, query: query, update: e.confirming(r)}, r)
	if img == nil && err == nil && f.conditions != nil {
		return Answer{Outcome: NotFound, Sent: sent}, e.absent(ctx, query)
	}
	a, err := e.answer(img, err, sent, r, Lost, Lost)
	if a.Outcome == Lost {
		a.Gone = img == nil
		return e.lost(ctx, a, err, pin, withID(r.Tag, r.ID))
	}
	return a, err
}

// Claim sends one claim: an acquire that doesn't wait, of the first document by the
// filter's keys that matches and is free for the tag. It passes over the documents of
// past. The outcome is Granted or NotFound; where the server's clock gives no fence, it
// is a failure. The request's id must be new.
func (e *Engine) Claim(ctx context.Context, f Filter, r Request, past []Pin) (Answer, error) {
	r.Try = true
	img, sent, err := e.show(ctx, change{comment: forClaim, query: e.free(f, r.Tag, past), sort: f.sort, update: e.arriving(r)}, r)
	return e.answer(img, err, sent, r, NotFound, Conflict)
}

// Candidates reads which documents a claim would find, at most limit, in the order of
// the filter's keys. It has the primary's newest state (read concern local): a majority
// read would be behind, and show documents that are locked by now.
func (e *Engine) Candidates(ctx context.Context, f Filter, tag string, past []Pin, limit int) (found []Pin, err error) {
	fields := bson.D{{Key: "_id", Value: 1}}
	for _, key := range e.ShardKey {
		fields = append(fields, bson.E{Key: key, Value: 1})
	}
	if _, err = e.begin(ctx); err != nil {
		return nil, err
	}
	free := search{comment: forClaim, filter: e.free(f, tag, past), fields: value(fields), sort: f.sort, limit: limit}
	docs, err := e.all(ctx, localRead, free)
	for _, doc := range docs {
		found = append(found, e.Pin(&Image{ID: doc.Lookup("_id"), raw: doc}))
	}
	return found, err
}

// Claimed looks for the entry that a claim of unknown outcome may have made, by its id, and
// by its pin or else its filter. The image is nil if there is none, which is proven
// (rule 27). It is no grant: the entry may have expired.
func (e *Engine) Claimed(ctx context.Context, f Filter, r Request) (*Image, error) {
	var own any = e.withID(f.Pin, r.Tag, r.ID)
	if f.Pin == nil {
		own = f.and(own)
	}
	return e.read(ctx, own)
}

// ClaimAll sends a claim of several documents in one command: those that match and are
// free get an entry, all with the request's id, which must be new. It counts the entries,
// and doesn't say where they are: see [Engine.ClaimedOf]. Beside an error of a command that
// was sent some may have been made. By its hint the server takes the documents in the order
// of their _ids, as renewals do: else two commands could wait for each other.
func (e *Engine) ClaimAll(ctx context.Context, f Filter, r Request, pins []Pin) (made int, sent bool, err error) {
	r.Try = true
	if _, err = e.begin(ctx); err != nil {
		return 0, false, err
	}
	named := bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: idsOf(pins)}}}} // for the hint's index
	query := f.and(named, e.among(pins), e.fill(finding, Request{Tag: r.Tag}))
	statement := updating(query, e.arriving(r)).add("multi", yes).add("hint", justID)
	reply, err := e.statements(ctx, e.name, forClaim, "update", statement.end())
	sent = err == nil || !AsFailure(err).Nothing || errors.As(err, new(mongo.ServerError))
	return int(counted(reply, "nModified")), sent, err
}

// ClaimedOf reads which of these documents have an entry with the request's id. There is an
// answer for each pin, which is Granted if the entry is held and hasn't expired, and NotFound
// else. It counts from Sent on as a grant of the full TTL would (rule 20). With proof,
// absence is proven (rule 27).
func (e *Engine) ClaimedOf(ctx context.Context, r Request, pins []Pin, proof bool) (answers []Answer, err error) {
	own := bson.E{Key: e.path(r.Tag) + "." + idKey, Value: idValue(r.ID)}
	found := search{comment: forClaim, filter: append(e.among(pins), own), fields: e.projection(r), batch: int32(len(pins)) + 1}
	var docs []bson.Raw
	var sent Reading
	if proof {
		docs, sent, err = e.newest(ctx, found)
	} else if sent, err = e.begin(ctx); err == nil {
		docs, err = e.all(ctx, localRead, found)
	}
	images := make([]*Image, len(pins))
	for _, doc := range docs {
		img, err := e.imageOf(doc)
		if i := slices.IndexFunc(pins, e.Pin(img).equals); err == nil && i >= 0 {
			images[i] = img
		}
	}
	for _, img := range images {
		a, ttl := Answer{Outcome: NotFound}, e.LeaseBy(r.Tag, r.Terms)
		if img != nil && img.arrived(r.Tag, r.ID, NotFound) == Granted {
			own, _ := img.Lock.Find(r.Tag, r.ID)
			if left := e.remaining(own, img.Now, ttl); left > 0 {
				a = Answer{Outcome: Granted, Image: img, Sent: sent.Less(ttl - left)}
			}
		}
		answers = append(answers, a)
	}
	return answers, err
}

// arriving is the update of an acquire.
func (e *Engine) arriving(r Request) bson.RawValue {
	switch {
	case r.TakeOver != nil:
		return value(e.decisionOf(r).takeOver(r.TakeOver, idValue(r.ID), cmp.Or(r.Terms.Owner, e.Owner)))
	case r.Try:
		return e.fill(trying, r)
	default:
		return e.fill(acquiring, r)
	}
}

// confirming is the update of a confirm, which leaves the owner as it is.
func (e *Engine) confirming(r Request) bson.RawValue {
	r.Terms.Owner = ""
	return e.fill(confirming, r)
}

// show sends an update, and reads the request's image, which may stand beside an error: see
// imageOf.
func (e *Engine) show(ctx context.Context, c change, r Request) (*Image, Reading, error) {
	c.new, c.fields = yes, e.projection(r)
	raw, sent, err := e.send(ctx, c)
	img, err := e.readImage(raw, err)
	return img, sent, err
}

// projection is that of the image, with the document as of the grant if the request asks
// for it.
func (e *Engine) projection(r Request) bson.RawValue {
	if r.Document {
		return e.fill(imageWith, Request{Tag: r.Tag, ID: r.ID})
	}
	return e.fill(image, Request{})
}

// free is the filter that finds what matches and is free for the tag, without the
// documents of past.
func (e *Engine) free(f Filter, tag string, past []Pin) bson.Raw {
	free := []any{e.fill(finding, Request{Tag: tag})}
	switch {
	case len(past) == 0:
	case len(e.ShardKey) == 0:
		free = append(free, bson.D{{Key: "_id", Value: bson.D{{Key: "$nin", Value: idsOf(past)}}}})
	default:
		free = append(free, bson.D{{Key: "$nor", Value: filtersOf(past)}})
	}
	return f.and(free...)
}

// insertAndModify makes the document that an acquire didn't find, by its identity
// alone, and sends the acquire again. (DocumentDB answers the loser of a race of upserts
// with the document that it would have inserted.) A racer may have made it in between:
// the second time it is there, or another one has a value that must be unique.
func (e *Engine) insertAndModify(ctx context.Context, f Filter, c change, r Request) (*Image, Reading, error) {
	unlocked := bson.D{{Key: "$setOnInsert", Value: append(bson.D{{Key: e.Field, Value: bson.D{}}}, f.made...)}}
	if sent, err := e.begin(ctx); err != nil {
		return nil, sent, err
	}
	for again := false; ; again = true {
		reply, refused := e.statements(ctx, e.name, forAcquire, "update", upsertOf(bson.D(f.Pin), unlocked))
		if refused != nil && !AsFailure(refused).Nothing {
			return nil, e.Clocks(), refused
		}
		img, sent, err := e.show(ctx, c, r)
		switch {
		case img != nil || err != nil:
			return img, sent, err
		case refused != nil && (again || !mongo.IsDuplicateKeyError(refused)):
			return nil, sent, refused
		case refused != nil:
			continue
		case reply.Lookup("upserted").Type == 0: // it was there
			return nil, sent, nil
		default:
			return nil, sent, race("the document was removed as soon as it was made")
		}
	}
}

// Remove is the clean-up of acquires without a lease: it removes the entries of a tag
// with these ids, whatever their fencing tokens and `until` are, but for those of a
// token, and returns the ids that it removed. Without a pin it cleans up one of the
// documents that the filter, if there is one, matches.
func (e *Engine) Remove(ctx context.Context, f Filter, tag string, ids []uuid.UUID) (found []uuid.UUID, err error) {
	path := e.path(tag)
	update := value(bson.D{{Key: "$pull", Value: bson.D{{Key: path, Value: oneOf(ids)}}}})
	projection := joined(e.fill(fences, Request{Tag: tag}).Document(), field(path+"."+tokenKey, value(1)))
	img, _, err := e.send(ctx, change{comment: forCleanUp, query: e.withOneOf(f, tag, ids), update: update, new: no, fields: embedded(projection)})
	if img == nil || err != nil {
		return nil, err
	}
	for _, entry := range e.allEntries(img) {
		if entry.Tag == tag && entry.Key == uuid.Nil && slices.Contains(ids, entry.ID) {
			found = append(found, entry.ID)
		}
	}
	return found, nil
}

// NoneOf proves that no document has an entry which Remove would remove: see
// [Engine.Absent].
func (e *Engine) NoneOf(ctx context.Context, f Filter, tag string, ids []uuid.UUID) error {
	return e.absent(ctx, e.withOneOf(f, tag, ids))
}

// withOneOf is the filter that matches while an entry has one of the ids, and no key.
func (e *Engine) withOneOf(f Filter, tag string, ids []uuid.UUID) any {
	one := e.having(tag, oneOf(ids))
	if f.Pin == nil && f.conditions != nil {
		return bson.D{{Key: "$and", Value: bson.A{f.conditions, bson.D{one}}}}
	}
	return f.Pin.and(one)
}

func oneOf(ids []uuid.UUID) bson.D {
	return bson.D{{Key: idKey, Value: bson.D{{Key: "$in", Value: idValues(ids)}}}, {Key: tokenKey, Value: nil}}
}
