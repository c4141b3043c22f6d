package admin_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var secret = named("secret")

// crowd is a document with an entry of each state.
func crowd(p *place) {
	p.Insert(idIs("crowd"), bson.E{Key: "text", Value: "hello"}, lock(99,
		tag("read",
			entry("ann", 1, 1, 5*time.Second),
			entry("bob", 3, 4, 5*time.Second, bson.E{Key: "key", Value: binary(secret)}, bson.E{Key: "detached", Value: true}),
			entry("old", 2, 2, -time.Second)),
		tag("write",
			entry("cid", 7, 0, 2*time.Second),
			entry("rem", 5, 6, 9*time.Second, bson.E{Key: "until", Value: at(9 * time.Second)})),
		tag("audit"),
	))
}

// Inspect shows every entry in the order of arrival, with its state and its
// times by the server's clock, in one majority read that changes nothing.
func TestInspectShowsTheLock(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	before := p.stored("crowd")
	got, err := admin.Inspect(t.Context(), p.coll, doclock.ID("crowd"), p.clocked())
	if err != nil {
		t.Fatal(err)
	}
	command := p.sent.All()[0]
	if level, _ := command.Lookup("readConcern", "level").StringValueOK(); level != "majority" {
		t.Errorf("the read is %v", command)
	}
	p.sends("Inspect", "find")
	if after := p.stored("crowd"); !slices.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
	want := func(name, tag string, state admin.State, seq, fence int64, left time.Duration) admin.Entry {
		return admin.Entry{
			DocumentID: got.DocumentID, Tag: tag, ID: named(name), Owner: "of " + name, State: state, Fence: fence, Seq: seq,
			Since: at(-time.Minute), Age: time.Minute, Expires: at(left), Remaining: left,
		}
	}
	bob := want("bob", "read", admin.Detached, 3, 4, 5*time.Second)
	bob.HasToken = true
	rem := want("rem", "write", admin.Remainder, 5, 6, 9*time.Second)
	rem.Until = at(9 * time.Second)
	all := &admin.Lock{DocumentID: got.DocumentID, Now: at(0), Fence: 99, Entries: []admin.Entry{
		want("ann", "read", admin.Held, 1, 1, 5*time.Second),
		want("old", "read", admin.Held, 2, 2, -time.Second),
		bob,
		rem,
		want("cid", "write", admin.Waiting, 7, 0, 2*time.Second),
	}}
	if diff := cmp.Diff(all, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if id := got.DocumentID.StringValue(); id != "crowd" {
		t.Errorf("document %s", id)
	}
	for _, e := range got.Entries {
		if e.Expired() != (e.ID == named("old")) {
			t.Errorf("%v: expired is %v", e, e.Expired())
		}
	}
}

// A lease whose TTL ends later than its Until, or that has written, is no
// remainder. A fence of 0 is that of a waiting entry.
func TestStates(t *testing.T) {
	p := newPlace(t)
	until := bson.E{Key: "until", Value: at(time.Second)}
	for name, c := range map[string]struct {
		entry bson.D
		want  admin.State
	}{
		"held":            {entry("a", 1, 2, time.Second), admin.Held},
		"waiting":         {entry("a", 1, 0, time.Second), admin.Waiting},
		"waiting, by 0":   {entry("a", 1, 0, time.Second, bson.E{Key: "fence", Value: int64(0)}), admin.Waiting},
		"detached":        {entry("a", 1, 2, time.Second, bson.E{Key: "detached", Value: true}), admin.Detached},
		"resumed":         {entry("a", 1, 2, time.Second, bson.E{Key: "key", Value: binary(secret)}), admin.Held},
		"remainder":       {entry("a", 1, 2, time.Second, until), admin.Remainder},
		"renewed":         {entry("a", 1, 2, 2*time.Second, until), admin.Held},
		"has written":     {entry("a", 1, 2, time.Second, until, bson.E{Key: "n", Value: int64(1)}), admin.Held},
		"with a token":    {entry("a", 1, 2, time.Second, until, bson.E{Key: "key", Value: binary(secret)}), admin.Held},
		"detached, until": {entry("a", 1, 2, time.Second, until, bson.E{Key: "detached", Value: true}), admin.Detached},
	} {
		p.Insert(idIs(name), lock(9, tag("write", c.entry)))
		if got := p.inspect(name, p.clocked()).Entries[0].State; got != c.want {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
}

// The rules tell which entries keep a waiting entry back, and which ones keep an
// acquire back under each tag. Expired entries keep nobody back, unknown tags
// everybody.
func TestInspectSaysWhoIsInWhoseWay(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	got := p.inspect("crowd", p.clocked(), admin.Rules(relations.WritePreferring()))
	want := map[string][]uuid.UUID{
		"read":  {named("cid"), named("rem")},
		"write": {named("ann"), named("bob"), named("cid"), named("rem")},
	}
	if diff := cmp.Diff(want, got.InTheWay); diff != "" {
		t.Errorf("in the way of an arrival (-want +got):\n%s", diff)
	}
	for _, e := range got.Entries {
		var want []uuid.UUID
		if e.ID == named("cid") {
			want = []uuid.UUID{named("ann"), named("bob"), named("rem")}
		}
		if diff := cmp.Diff(want, e.WaitsFor); diff != "" {
			t.Errorf("%v waits for (-want +got):\n%s", e, diff)
		}
	}
	got = p.inspect("crowd", p.clocked(), admin.Rules(relations.Semaphore(2)))
	if len(got.InTheWay["slot"]) != 4 {
		t.Errorf("unknown tags keep an arrival back: %v", got.InTheWay)
	}
	for _, e := range got.Entries {
		if e.WaitsFor != nil {
			t.Errorf("rules without its tag say what %v waits for", e)
		}
	}
	p.Insert(idIs("free"))
	if got := p.inspect("free", admin.Rules(relations.Fair())); len(got.InTheWay) != 2 || len(got.InTheWay["read"]) != 0 || got.InTheWay["read"] == nil {
		t.Errorf("nothing is in the way, but: %v", got.InTheWay)
	}
}

// A waiter that a cooperative relation keeps back is in no list. An assertive
// one is.
func TestWhoCanBeSeenWaiting(t *testing.T) {
	p := newPlace(t)
	p.Insert()
	for _, c := range []struct {
		rules relations.Rules
		tag   string
		want  int
	}{{relations.Exclusive(), "write", 0}, {relations.Semaphore(1), "slot", 1}} {
		l := p.locker(c.rules)
		lease := p.acquire(l, p.ID, c.tag)
		ctx, giveUp := context.WithCancel(fixture.Bounded(p))
		done := make(chan error, 1)
		before := p.stored(p.ID)
		go func() {
			_, err := l.Acquire(ctx, doclock.ID(p.ID), c.tag)
			done <- err
		}()
		if c.want > 0 {
			fixture.Eventually(p, "the waiter is shown", func() bool { return len(p.inspect(p.ID).Entries) == 2 })
			if e := p.inspect(p.ID, admin.Rules(c.rules)).Entries[1]; e.State != admin.Waiting || !slices.Equal(e.WaitsFor, []uuid.UUID{lease.ID()}) {
				t.Errorf("%v waits for %v", e, e.WaitsFor)
			}
		}
		giveUp()
		if err := <-done; err == nil {
			t.Error("the waiter was granted")
		}
		if c.want == 0 && !slices.Equal(before, p.stored(p.ID)) {
			t.Errorf("a cooperative waiter has changed %v into %v", before, p.stored(p.ID))
		}
		if err := lease.Release(fixture.Bounded(p)); err != nil {
			t.Error(err)
		}
	}
}

// The key of a token is in nothing that an Entry is printed as.
func TestTheKeyIsNeverShown(t *testing.T) {
	p := newPlace(t)
	crowd(p)
	l := p.inspect("crowd", p.clocked())
	text, err := json.Marshal(l)
	if err != nil {
		t.Fatal(err)
	}
	for _, shown := range []string{string(text), fmt.Sprint(l.Entries), fmt.Sprintf("%+v", *l), fmt.Sprintf("%#v", l.Entries), fmt.Sprintf("%q", l.Entries)} {
		for _, form := range []string{secret.String(), string(secret[:]), fmt.Sprint(secret[:]), fmt.Sprintf("%x", secret[:])} {
			if strings.Contains(shown, form) {
				t.Errorf("the key is in %s", shown)
			}
		}
	}
}

func TestInspectOfNothing(t *testing.T) {
	p := newPlace(t)
	_, err := admin.Inspect(t.Context(), p.coll, doclock.ID("none")) // and there is no collection
	p.want(err, doclock.ErrNotFound)
	for name, field := range map[string]any{"absent": nil, "null": bson.E{Key: "lock"}, "empty": bson.E{Key: "lock", Value: bson.D{}}} {
		doc := bson.D{idIs(name)}
		if e, ok := field.(bson.E); ok {
			doc = append(doc, e)
		}
		p.Insert(doc...)
		if l := p.inspect(name); len(l.Entries) != 0 || l.Fence != 0 || l.Now.IsZero() {
			t.Errorf("%s: %+v", name, l)
		}
	}
	_, err = admin.Inspect(t.Context(), p.coll, doclock.ID("none"))
	p.want(err, doclock.ErrNotFound)
	p.Insert(idIs("foreign"), bson.E{Key: "lock", Value: "the gardener's"})
	_, err = admin.Inspect(t.Context(), p.coll, doclock.ID("foreign"))
	p.want(err, doclock.ErrForeignLock)
	if l := p.inspect("foreign", admin.Field("other")); len(l.Entries) != 0 {
		t.Errorf("another field: %+v", l)
	}
}

// The times are those of the server where no test sets them.
func TestInspectByTheServersClock(t *testing.T) {
	p := newPlace(t)
	p.Insert()
	lease := p.acquire(p.locker(relations.Exclusive(), doclock.TTL(time.Minute)), p.ID, "write")
	e := p.inspect(p.ID).Entries[0]
	if e.Remaining <= 0 || e.Remaining > time.Minute+500*time.Millisecond || e.Age < 0 || e.Age > time.Minute ||
		e.ID != lease.ID() || e.Fence != lease.Fence() || e.State != admin.Held {
		t.Errorf("%+v", e)
	}
}
