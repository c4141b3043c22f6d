package engine

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Token names an entry that a detach has left to its users. It says nothing of the
// document and of the entry's life: those are the business of who shows it.
type Token struct {
	Tag    string
	Secret uuid.UUID
}

// Key is what the entry has: it doesn't give away the secret to those who read the document.
func (k Token) Key() uuid.UUID {
	sum := sha256.Sum256(k.Secret[:])
	return uuid.UUID(sum[:len(k.Secret)])
}

// A token's text is, in the alphabet of URLs: the version, the secret, the tag, and a
// checksum of the three. Version 1 had the document and a TTL, too, and 2 the entry's key.
const tokenVersion = 3

var (
	tokenText = base64.RawURLEncoding
	tokenSum  = crc32.MakeTable(crc32.Castagnoli)
)

// Text is the token in the form that is handed out.
func (k Token) Text() string {
	text := append([]byte{tokenVersion}, k.Secret[:]...)
	text = append(text, k.Tag...)
	return tokenText.EncodeToString(binary.BigEndian.AppendUint32(text, crc32.Checksum(text, tokenSum)))
}

var errNoToken = errors.New("this is not the whole text that Detach has returned")

// ParseToken reads a token's text. It refuses every text but those that Text makes of
// a tag of the engine's rules.
func (e *Engine) ParseToken(text string) (Token, error) {
	const sum, secret = 4, 1 + len(uuid.UUID{})
	data, err := tokenText.DecodeString(text)
	end := len(data) - sum
	switch {
	case err != nil || end < 1 || crc32.Checksum(data[:end], tokenSum) != binary.BigEndian.Uint32(data[end:]):
		return Token{}, errNoToken
	case data[0] != tokenVersion:
		return Token{}, fmt.Errorf("it has version %d, and this library reads version %d; lock the document anew", data[0], tokenVersion)
	case end < secret:
		return Token{}, errNoToken
	}
	k := Token{Secret: uuid.UUID(data[1:secret]), Tag: string(data[secret:end])}
	switch _, known := e.rules[k.Tag]; {
	case !known:
		return Token{}, fmt.Errorf("it is of tag %q, which is not a tag of the rules", k.Tag)
	case k.Secret == uuid.Nil || k.Text() != text: // or another text of the same token
		return Token{}, errNoToken
	default:
		return k, nil
	}
}

// Resume gives the token's entry, also an expired one, to a new handle: the request's id,
// the next fencing token, no number, and the owner of the terms, if any. A handle that it
// still has keeps others out until its expiry. A repeat finds its id. The outcome is
// Granted; Conflict: the entry has a mark that the request doesn't name; Lost: the document
// has no such entry; or NotFound: this says nothing of it.
func (e *Engine) Resume(ctx context.Context, f Filter, k Token, r Request) (Answer, error) {
	query := e.keyed(f, k, markAmong(r.Settled...))
	more := bson.E{Key: "$or", Value: bson.A{f.doc, field(e.path(k.Tag)+"."+idKey, idValue(r.ID))}}
	if !f.Exact {
		query = append(query, more)
	}
	update := e.decision(k.Tag, e.LeaseBy(r.Tag, r.Terms)).resumption(idValue(k.Key()), idValue(r.ID), r.Terms.Owner)
	img, sent, err := e.show(ctx, change{comment: forResume, query: query, update: update}, r)
	a, err := e.answer(img, err, sent, r, Lost, Conflict)
	if a.Outcome != Granted {
		return e.unresumed(ctx, a, err, f, k, more, func(own Entry) bool { return own.HasMark() && !slices.Contains(r.Settled, own.Mark.ID) })
	}
	return a, err
}

// Touch extends the token's entry, in the document that the filter pins, to a TTL from
// now, and gives it to nobody. The outcome is Renewed, or as that of a Resume.
func (e *Engine) Touch(ctx context.Context, f Filter, k Token, ttl time.Duration) (Answer, error) {
	query, more := e.keyed(f, k), bson.E{Key: "$and", Value: bson.A{f.doc}}
	if !f.Exact {
		query = append(query, more)
	}
	d := e.decision(k.Tag, ttl)
	entries := inPlaceBy(tokenKey, d.own, idValue(k.Key()), bson.D{{Key: expiresKey, Value: d.extended("$$e", d.held)}})
	img, sent, err := e.send(ctx, change{comment: forTouch, query: query, update: stage(e.path(k.Tag), entries)})
	a := Answer{Outcome: Renewed, Sent: sent}
	if img == nil {
		return e.unresumed(ctx, a, err, f, k, more, func(Entry) bool { return false })
	}
	return a, err
}

// unresumed is the answer of a resume or a touch that has matched nothing, after a read
// of the document. If the entry is there, the filter demands more than the document has, its
// mark is in the way, or the server that answered did not know it.
func (e *Engine) unresumed(ctx context.Context, a Answer, err error, f Filter, k Token, more bson.E, inTheWay func(Entry) bool) (Answer, error) {
	a.Outcome = Lost
	if err != nil {
		return a, err
	}
	img, err := e.Read(ctx, f.Pin)
	if img == nil && err != nil {
		return a, unproven(err)
	}
	if img == nil {
		a.Outcome, a.Gone = NotFound, true
		return a, nil
	}
	own := slices.DeleteFunc(e.allEntries(img.raw), func(other Entry) bool { return !k.matches(other) })
	if len(own) == 0 {
		a.Image = img
		return a, nil
	}
	marked := slices.ContainsFunc(own, inTheWay)
	query := append(e.keyed(f, k), more)
	missed := race("the server that answered is no longer the primary")
	switch {
	case f.Exact:
	case marked: // and so the command is not what shows it
		missed = e.missing(ctx, query)
	default:
		missed = e.absent(ctx, query)
	}
	switch {
	case AsFailure(missed).Cause != CauseRace:
		return Answer{Outcome: NotFound, Sent: a.Sent}, missed
	case marked:
		a.Outcome, a.Image = Conflict, img
		return a, err
	default:
		return a, missed
	}
}

// matches says that an entry is the token's: that keyed matches it.
func (k Token) matches(e Entry) bool { return e.Tag == k.Tag && e.Key == k.Key() && e.Held() }

// keyed is the filter that matches while the token's entry is in the pinned document, with
// more, if that is given.
func (e *Engine) keyed(f Filter, k Token, more ...bson.E) bson.D {
	entry := append(bson.D{{Key: tokenKey, Value: idValue(k.Key())}, {Key: fenceKey, Value: bson.D{{Key: "$gt", Value: 0}}}}, more...)
	return f.Pin.and(e.having(k.Tag, entry))
}
