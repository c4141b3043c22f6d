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

// key is that of the tests' token.
var key = named("key")

// token is the token of a grant that was detached with the key.
func token(g Grant) Token { return Token{Pin: g.Pin, Tag: g.Tag, Key: key, TTL: ttl} }

// detach sends a detach and checks its outcome.
func (p *peer) detach(g Grant, want Outcome) Token {
	p.Helper()
	p.untouched("detach", func() {
		p.plain("detach", g, want, func(ctx context.Context) (Answer, error) { return p.Detach(ctx, g, key) })
	})
	return token(g)
}

// resume sends a resume, which is granted.
func (p *peer) resume(k Token, id uuid.UUID) Grant {
	p.Helper()
	img := p.image("resume", Request{Tag: k.Tag, ID: id}, Granted, func(ctx context.Context) (Answer, error) {
		return p.Resume(ctx, k, Request{Tag: k.Tag, ID: id})
	})
	return p.Grant(img, Request{Tag: k.Tag, ID: id})
}

// gone sends a resume and a touch that find nothing.
func (p *peer) gone(k Token) {
	p.Helper()
	g := Grant{Tag: k.Tag, ID: eve}
	p.once("nothing", func() {
		got, err := p.Resume(p.Context(), k, Request{Tag: k.Tag, ID: eve, Document: true})
		if got.Outcome != Lost || got.Image != nil || err != nil {
			p.Errorf("resume: %v, %v", got.Outcome, err)
		}
	})
	p.plain("touch", g, Lost, func(ctx context.Context) (Answer, error) { return p.Touch(ctx, k) })
}

// touch sends a touch that finds the entry.
func (p *peer) touch(k Token) {
	p.Helper()
	p.untouched("touch", func() {
		p.plain("touch", Grant{Tag: k.Tag}, Renewed, func(ctx context.Context) (Answer, error) { return p.Touch(ctx, k) })
	})
}

// A token finds its entry by the key, under its tag, in its document.
func TestTokenOfNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	g := p.acquire(ann, "read", Granted)
	p.gone(token(g))
	k := p.detach(g, Detached)
	before := w.Stored()
	other := k
	other.Tag = "write"
	p.gone(other)
	other = k
	other.Key = ann
	p.gone(other)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	p.release(p.resume(k, bob), Released)
	p.gone(k)
	w.Delete()
	p.gone(k)
}

// A lock without fences is resumed, and the fencing token follows the clock. A
// lock that is not ours stays as it is.
func TestResumeInADamagedLock(t *testing.T) {
	t.Parallel()
	inADamagedLock(t, map[string]damage{
		"no fence":     {bson.M{"$unset": bson.M{"lock.fence": 1}}, false, Granted},
		"a null fence": {bson.M{"$set": bson.M{"lock.fence": nil}}, false, Granted},
		"a text fence": {bson.M{"$set": bson.M{"lock.fence": "x"}}, true, Lost},
		"the last one": {bson.M{"$set": bson.M{"lock.fence": int64(fenceLimit)}}, true, Lost},
		"another tag":  {bson.M{"$set": bson.M{"lock.tags.x": "y"}}, true, Lost},
		"odd values": {bson.M{"$set": bson.M{
			"lock.tags.write.0.n": "many", "lock.tags.write.0.detached": "yes", "lock.tags.write.0.seq": bson.A{},
			"lock.tags.write.0.since": nil,
		}}, false, Granted},
		"an odd expiry": {bson.M{"$set": bson.M{"lock.tags.write.0.expires": "soon", "lock.tags.write.0.until": bson.M{}}}, false, Granted},
	}, func(p *peer, g Grant) (Answer, error) {
		got, err := p.Resume(p.Context(), token(g), Request{Tag: "write", ID: bob})
		if err == nil {
			p.touch(token(g))
			p.release(p.Grant(got.Image, Request{Tag: "write", ID: bob}), Released)
		}
		return got, err
	})
}
