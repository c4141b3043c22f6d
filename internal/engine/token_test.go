package engine

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// offline is an engine whose collection gets no command.
func offline(t testing.TB, rules relations.Rules, changes ...func(*Config)) *Engine {
	t.Helper()
	client, err := mongo.Connect(options.Client().ApplyURI("mongodb://127.0.0.1:1/"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	cfg := Config{Terms: Terms{TTL: ttl}, Field: DefaultField}
	for _, change := range changes {
		change(&cfg)
	}
	e, err := New(client.Database("shop").Collection("orders"), rules, cfg)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func pinOf(id any) Pin { return Pin{{Key: "_id", Value: value(id)}} }

func TestTokenText(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Fair())
	for _, id := range []any{int32(7), "garden", bson.NewObjectID(), bson.D{{Key: "a", Value: bson.A{1, "x"}}}, bson.Null{}, bson.MinKey{}, strings.Repeat("long", 1000)} {
		want := Token{Pin: pinOf(id), Tag: "read", Key: uuid.New(), TTL: 1234 * time.Millisecond}
		text := e.Text(want)
		got, err := e.ParseToken(text)
		if err != nil || got.Tag != want.Tag || got.Key != want.Key || got.TTL != want.TTL || len(got.Pin) != 1 || !got.Pin.ID().Equal(want.Pin.ID()) {
			t.Errorf("%v: %+v, %v", id, got, err)
		}
		if i := strings.IndexFunc(text, func(r rune) bool {
			return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", r)
		}); i >= 0 {
			t.Errorf("the text %q has to be escaped in a URL", text)
		}
	}
}

// A token of another place is refused, with the reason.
func TestTokenOfAnotherPlace(t *testing.T) {
	t.Parallel()
	k := Token{Pin: pinOf(7), Tag: "read", Key: key, TTL: ttl}
	text := offline(t, relations.Fair()).Text(k)
	people := offline(t, relations.Fair())
	people.coll = people.coll.Database().Collection("people")
	sharded := func(c *Config) { c.ShardKey = []string{"region"} }
	for name, c := range map[string]struct {
		e    *Engine
		want string
	}{
		"collection": {people, "shop.orders"},
		"field":      {offline(t, relations.Fair(), func(c *Config) { c.Field = "hold" }), `field "lock"`},
		"tag":        {offline(t, relations.Semaphore(3)), `tag "read"`},
		"shard key":  {offline(t, relations.Fair(), sharded), "ShardKey"},
	} {
		if _, err := c.e.ParseToken(text); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	e := offline(t, relations.Fair(), sharded)
	k.Pin = append(k.Pin, bson.E{Key: "region", Value: value("north")})
	if got, err := e.ParseToken(e.Text(k)); err != nil || len(got.Pin) != 2 {
		t.Errorf("%+v, %v", got, err)
	}
	other := offline(t, relations.Fair(), func(c *Config) { c.ShardKey = []string{"country"} })
	if _, err := other.ParseToken(e.Text(k)); err == nil || !strings.Contains(err.Error(), "ShardKey") {
		t.Errorf("another shard key: %v", err)
	}
}

// Every text that is a bit longer, shorter or other is refused.
func TestTokenAltered(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Fair())
	text := e.Text(Token{Pin: pinOf(7), Tag: "read", Key: key, TTL: ttl})
	refused := func(altered string) {
		t.Helper()
		if got, err := e.ParseToken(altered); err == nil {
			t.Errorf("%q was read as %+v; the token's text is %q", altered, got, text)
		}
	}
	for i := range text {
		refused(text[:i])
		refused(text[i+1:])
		for _, c := range "A9_-=. \n" {
			if rune(text[i]) != c {
				refused(text[:i] + string(c) + text[i+1:])
			}
			refused(text[:i] + string(c) + text[i:])
		}
	}
	for _, more := range []string{"A", "AAAA", "=", "\n", "\r\n", " "} {
		refused(text + more)
		refused(more + text)
	}
	refused(text + text)
}

// A text with a right checksum may still be no token. Whatever it is, it is read
// as what it says or refused.
func TestTokenAlteredWithARightChecksum(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Fair())
	text := e.Text(Token{Pin: pinOf(bson.D{{Key: "a", Value: bson.A{"x", 1.5}}}), Tag: "read", Key: key, TTL: ttl})
	data, err := tokenText.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	body := data[:len(data)-4]
	for i := range body {
		for b := range 256 {
			altered := bytes.Clone(body)
			altered[i] = byte(b)
			text := summed(altered)
			if k, err := e.ParseToken(text); err == nil && e.Text(k) != text {
				t.Errorf("byte %d as %d: %+v", i, b, k)
			}
		}
	}
}

// No text makes ParseToken panic, and what it reads it would write.
func FuzzToken(f *testing.F) {
	e := offline(f, relations.Fair())
	text := e.Text(Token{Pin: pinOf(7), Tag: "read", Key: key, TTL: ttl})
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data[:len(data)-4])
	f.Add([]byte{tokenVersion, 5, 0, 0, 0, 0})
	f.Add([]byte{tokenVersion + 1, 5, 0, 0, 0, 0})
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, body []byte) {
		for _, text := range []string{string(body), base64.RawURLEncoding.EncodeToString(body), summed(body)} {
			if k, err := e.ParseToken(text); err == nil && e.Text(k) != text {
				t.Errorf("%q was read as %+v, which is %q", text, k, e.Text(k))
			}
		}
	})
}

// summed is the text with a right checksum.
func summed(body []byte) string {
	return tokenText.EncodeToString(binary.BigEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, tokenSum)))
}

// A token names one document. A text that was made up, with a checksum that is
// right, does not search for documents.
func TestTokenThatNamesNoDocument(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Fair())
	for _, id := range []any{bson.D{{Key: "$ne", Value: 1}}, bson.D{{Key: "$gt", Value: bson.MinKey{}}}, bson.Regex{Pattern: "^"}} {
		text := e.Text(Token{Pin: pinOf(id), Tag: "read", Key: uuid.New(), TTL: ttl})
		if k, err := e.ParseToken(text); err != errNoToken {
			t.Errorf("%v: %v, %v", id, k, err)
		}
	}
}
