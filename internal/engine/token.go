package engine

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/google/uuid"
)

// Token names an entry that a detach has left to its users. It says nothing of the
// document and of the entry's life: those are the business of who shows it.
type Token struct {
	Tag string
	Key uuid.UUID
}

// A token's text is, in the alphabet of URLs: the version, the key, the tag, and a
// checksum of the three. Version 1 had the document and a TTL, too.
const tokenVersion = 2

var (
	tokenText = base64.RawURLEncoding
	tokenSum  = crc32.MakeTable(crc32.Castagnoli)
)

// Text is the token in the form that is handed out. Its only secret is the key.
func (k Token) Text() string {
	text := append([]byte{tokenVersion}, k.Key[:]...)
	text = append(text, k.Tag...)
	return tokenText.EncodeToString(binary.BigEndian.AppendUint32(text, crc32.Checksum(text, tokenSum)))
}

var errNoToken = errors.New("this is not the whole text that Detach has returned")

// ParseToken reads a token's text. It refuses every text but those that Text makes of
// a tag of the engine's rules.
func (e *Engine) ParseToken(text string) (Token, error) {
	const sum, key = 4, 1 + len(uuid.UUID{})
	data, err := tokenText.DecodeString(text)
	end := len(data) - sum
	switch {
	case err != nil || end < 1 || crc32.Checksum(data[:end], tokenSum) != binary.BigEndian.Uint32(data[end:]):
		return Token{}, errNoToken
	case data[0] != tokenVersion:
		return Token{}, fmt.Errorf("it has version %d, and this library reads version %d; lock the document anew", data[0], tokenVersion)
	case end < key:
		return Token{}, errNoToken
	}
	k := Token{Key: uuid.UUID(data[1:key]), Tag: string(data[key:end])}
	switch _, known := e.rules[k.Tag]; {
	case !known:
		return Token{}, fmt.Errorf("it is of tag %q, which is not a tag of the rules", k.Tag)
	case k.Key == uuid.Nil || k.Text() != text: // or another text of the same token
		return Token{}, errNoToken
	default:
		return k, nil
	}
}
