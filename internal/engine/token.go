package engine

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"time"

	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Token names an entry that a detach has left to its users.
type Token struct {
	Pin Pin
	Tag string
	Key uuid.UUID
	TTL time.Duration // by which its users extend the entry
}

// A token's text is, in the alphabet of URLs: the version, a document, and a
// checksum of both. The document names the place (namespace, lock field,
// tag, pin), the TTL in milliseconds and the key.
const tokenVersion = 1

var (
	tokenText = base64.RawURLEncoding
	tokenSum  = crc32.MakeTable(crc32.Castagnoli)
)

// Names in a token's document.
const (
	tokenPlaceKey = "ns"
	tokenFieldKey = "field"
	tokenTagKey   = "tag"
	tokenPinKey   = "pin"
	tokenTTLKey   = "ttl"
)

// Text is the token in the form that is handed out. It names no secret but the
// key.
func (e *Engine) Text(k Token) string {
	doc := value(bson.D{
		{Key: tokenPlaceKey, Value: e.Namespace()},
		{Key: tokenFieldKey, Value: e.field},
		{Key: tokenTagKey, Value: k.Tag},
		{Key: tokenPinKey, Value: bson.D(k.Pin)},
		{Key: tokenTTLKey, Value: k.TTL.Milliseconds()},
		{Key: tokenKey, Value: idValue(k.Key)},
	})
	text := append([]byte{tokenVersion}, doc.Value...)
	return tokenText.EncodeToString(binary.BigEndian.AppendUint32(text, crc32.Checksum(text, tokenSum)))
}

// longestTTL is the longest that an option takes.
const longestTTL = 30 * 24 * time.Hour

var errNoToken = errors.New("this is not the whole text that Detach has returned")

// ParseToken reads a token's text. It refuses every text but those that an
// engine of this collection, this field, these tags and this shard key has made.
func (e *Engine) ParseToken(text string) (Token, error) {
	data, err := tokenText.DecodeString(text)
	const shortest, sum = 1 + 5 + 4, 4
	if err != nil || len(data) < shortest {
		return Token{}, errNoToken
	}
	end := len(data) - sum
	if crc32.Checksum(data[:end], tokenSum) != binary.BigEndian.Uint32(data[end:]) {
		return Token{}, errNoToken
	}
	if data[0] != tokenVersion {
		return Token{}, fmt.Errorf("it has version %d, and this library reads version %d", data[0], tokenVersion)
	}
	k, err := e.readToken(bson.Raw(data[1:end]))
	if err != nil {
		return Token{}, err
	}
	if e.Text(k) != text { // another text of the same token
		return Token{}, errNoToken
	}
	return k, nil
}

// readToken reads a token's document, and compares it with the engine's place.
func (e *Engine) readToken(doc bson.Raw) (Token, error) {
	if doc.Validate() != nil {
		return Token{}, errNoToken
	}
	ns, _ := doc.Lookup(tokenPlaceKey).StringValueOK()
	lock, _ := doc.Lookup(tokenFieldKey).StringValueOK()
	tag, _ := doc.Lookup(tokenTagKey).StringValueOK()
	pin, _ := doc.Lookup(tokenPinKey).DocumentOK()
	ttl, _ := doc.Lookup(tokenTTLKey).Int64OK()
	fields, _ := pin.Elements()
	_, known := e.rules[tag]
	switch {
	case ns != e.Namespace():
		return Token{}, fmt.Errorf("it is of collection %q, and this one is %q", ns, e.Namespace())
	case lock != e.field:
		return Token{}, fmt.Errorf("it is of the lock in field %q, and this one is in %q", lock, e.field)
	case !known:
		return Token{}, fmt.Errorf("it is of tag %q, which is not a tag of the rules", tag)
	case len(fields) != 1+len(e.ShardKey):
		return Token{}, fmt.Errorf("it names the document by %d fields, and this Locker by %d: ShardKey differs", len(fields), 1+len(e.ShardKey))
	}
	k := Token{Tag: tag, Key: parseID(doc.Lookup(tokenKey)), TTL: time.Duration(ttl) * time.Millisecond}
	for i, want := range append([]string{"_id"}, e.ShardKey...) {
		if fields[i].Key() != want {
			return Token{}, fmt.Errorf("it names the document by %q, and this Locker by %q: ShardKey differs", fields[i].Key(), want)
		}
		if !isEquality(fields[i].Value()) { // a text that was made up: it would find many documents
			return Token{}, errNoToken
		}
		k.Pin = append(k.Pin, bson.E{Key: want, Value: fields[i].Value()})
	}
	if k.Key == uuid.Nil || ttl <= 0 || ttl > longestTTL.Milliseconds() {
		return Token{}, errNoToken
	}
	return k, nil
}
