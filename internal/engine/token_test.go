package engine

import (
	"bytes"
	"context"
	"encoding/binary"
	"hash/crc32"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
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

// A text has the tag and the key, and nothing else, and needs no escape in a URL.
func TestTokenText(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.MultiGranularity())
	for _, tag := range e.Rules().Tags() {
		want := Token{Tag: tag, Secret: uuid.New()}
		text := want.Text()
		if got, err := e.ParseToken(text); err != nil || got != want {
			t.Errorf("%+v, %v", got, err)
		}
		if i := strings.IndexFunc(text, func(r rune) bool {
			return !strings.ContainsRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", r)
		}); i >= 0 {
			t.Errorf("the text %q has to be escaped in a URL", text)
		}
		if data, _ := tokenText.DecodeString(text); len(data) != 1+16+len(tag)+4 {
			t.Errorf("%d bytes for a key and the tag %q", len(data), tag)
		}
	}
}

// A token of another tag or another version is refused, with the reason.
func TestTokenOfAnotherProgram(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Semaphore(3))
	const first = "AXEAAAACbnMADAAAAHNob3Aub3JkZXJzAAJmaWVsZAAFAAAAbG9jawACdGFnAAUAAABzbG90AANwaW4ADgAAABBfaWQABwAAAAASdHRsABAn" +
		"AAAAAAAABWtleQAQAAAABGtleS4uLi4uLi4uLi4uLi4AO1zhUA" // of version 1, with a place and a TTL
	for text, want := range map[string]string{
		Token{Tag: "read", Secret: secret}.Text():   `tag "read"`,
		Token{Tag: "", Secret: secret}.Text():       `tag ""`,
		Token{Tag: "slot\n", Secret: secret}.Text(): `tag "slot\n"`,
		first:                            "version 1",
		summed([]byte{tokenVersion + 1}): "version 4",
		Token{Tag: "slot"}.Text():        "not the whole text",
		summed(append([]byte{tokenVersion}, key[:9]...)): "not the whole text",
	} {
		if k, err := e.ParseToken(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v, %v; want %s", k, err, want)
		}
	}
}

// Every text that is a bit longer, shorter or other is refused.
func TestTokenAltered(t *testing.T) {
	t.Parallel()
	e := offline(t, relations.Fair())
	text := Token{Tag: "read", Secret: secret}.Text()
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
	data, _ := tokenText.DecodeString(text)
	body := data[:len(data)-4]
	for i := range body { // and with a right checksum it is read as what it says, or refused
		for b := range 256 {
			altered := bytes.Clone(body)
			altered[i] = byte(b)
			if k, err := e.ParseToken(summed(altered)); err == nil && k.Text() != summed(altered) {
				t.Errorf("byte %d as %d: %+v", i, b, k)
			}
		}
	}
}

// summed is the text with a right checksum.
func summed(body []byte) string {
	return tokenText.EncodeToString(binary.BigEndian.AppendUint32(bytes.Clone(body), crc32.Checksum(body, tokenSum)))
}

// secret is that of the tests' token, and key what its entry has.
var (
	secret = named("key")
	key    = Token{Secret: secret}.Key()
)

// token is the token of a grant that was detached with the key.
func token(g Grant) Token { return Token{Tag: g.Tag, Secret: secret} }

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
		return p.Resume(ctx, p.filter(), k, Request{Tag: k.Tag, ID: id})
	})
	return p.Grant(img, Request{Tag: k.Tag, ID: id})
}

// gone sends a resume and a touch that find nothing.
func (p *peer) gone(k Token, want Outcome) {
	p.Helper()
	p.misses(p.filter(), k, want)
}

// misses sends a resume and a touch, and checks that a read has found out what they say.
func (p *peer) misses(f Filter, k Token, want Outcome) {
	p.Helper()
	for name, send := range map[string]func() (Answer, error){
		"resume": func() (Answer, error) {
			return p.Resume(p.Context(), f, k, Request{Tag: k.Tag, ID: eve, Document: true})
		},
		"touch": func() (Answer, error) { return p.Touch(p.Context(), f, k, ttl) },
	} {
		p.sent.Take()
		got, err := send()
		sent := p.sent.Take()
		if len(sent) == 3 && mongotest.HasMembers(p) { // that the document isn't the one that the filter demands is proven
			sent = sent[:2]
		}
		if got.Outcome != want || err != nil || len(sent) != 2 {
			p.Errorf("%s: %v, %v; %v", name, got.Outcome, err, sent)
		}
	}
}

// touch sends a touch that finds the entry.
func (p *peer) touch(k Token) {
	p.Helper()
	p.untouched("touch", func() {
		p.plain("touch", Grant{Entry: Entry{Tag: k.Tag}}, Renewed, func(ctx context.Context) (Answer, error) { return p.Touch(ctx, p.filter(), k, ttl) })
	})
}

// Rule 23. A filter may demand more than the document. If the document is another one,
// nothing is written, and nothing is said of the token. A repeat finds its own entry,
// whatever the document is by then.
func TestRule23ResumeOfADocumentInAState(t *testing.T) {
	t.Parallel()
	w := newWorld(t, bson.E{Key: "state", Value: "open"})
	p := w.peer(relations.Fair())
	open, closed := w.filterOf(bson.M{"state": "open"}), w.filterOf(bson.M{"state": "closed"})
	k := p.detach(p.acquire(ann, "write", Granted), Detached)
	before := w.Stored()
	p.misses(closed, k, NotFound)
	p.misses(closed, Token{Tag: "read", Secret: k.Secret}, Lost)
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	r := Request{Tag: "write", ID: bob}
	resume := func(f Filter, want Outcome) {
		t.Helper()
		if got, err := p.Resume(t.Context(), f, k, r); got.Outcome != want || err != nil {
			t.Errorf("%v, %v; want %v", got.Outcome, err, want)
		}
	}
	resume(open, Granted)
	w.Change(bson.M{"$set": bson.M{"state": "sold"}})
	w.at(time.Second)
	resume(open, Granted) // its repeat
	if e, _ := p.read(Grant{Pin: open.Pin}).Lock.Find("write", bob); !e.Expires.Equal(epoch.Add(time.Second + held)) {
		t.Errorf("a repeat leaves %+v", e)
	}
	if got, err := p.Touch(t.Context(), open, k, ttl); got.Outcome != NotFound || err != nil {
		t.Errorf("touch: %v, %v", got.Outcome, err)
	}
	r.ID = cid
	resume(open, NotFound)
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
		got, err := p.Resume(p.Context(), p.filter(), token(g), Request{Tag: "write", ID: bob})
		if err == nil {
			p.touch(token(g))
			p.release(p.Grant(got.Image, Request{Tag: "write", ID: bob}), Released)
		}
		return got, err
	})
}
