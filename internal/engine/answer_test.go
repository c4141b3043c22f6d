package engine

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

// Where the server has members, a linearizable read follows each command that has
// found no entry. Elsewhere nothing does.
func TestRule27NegativeAnswersAreProven(t *testing.T) {
	t.Parallel()
	p, _ := retrying(t, relations.Fair())
	g := p.acquire(ann, "write", Granted)
	p.Change(bson.M{"$unset": bson.M{"lock": 1}})
	members := modifying(p, g)
	for _, name := range []string{"acquire", "handoff", "write and hand off", "hand off after pipeline", "remove"} { // prove nothing by themselves
		delete(members, name)
	}
	for name, send := range members {
		p.proven(name, send)
	}
	p.proven("delete", func(ctx context.Context) (Answer, error) { return p.Delete(ctx, g) })
	for _, grants := range [][]Grant{{g}, {g, g}} {
		p.sent.Take()
		if standing, _, err := p.Standing(t.Context(), grants); standing[0].Lost == nil || err != nil || !fixture.IsProof(p.sent.All()[0]) {
			t.Errorf("%v, %v; sent %v", standing, err, p.sent.All())
		}
	}
	t.Run("alone", func(t *testing.T) {
		mongotest.Own(t)
		alone := newWorld(t, hello()).peer(relations.Fair())
		for name, send := range modifying(alone, g) {
			if members[name] == nil || name == "remove exactly" || name == "resume" || name == "touch" { // an operator's is not a holder's, and those of a token always read
				continue
			}
			alone.once(name, func() {
				if got, err := send(t.Context()); got.Outcome != Lost || err != nil {
					t.Errorf("%s: %v, %v", name, got.Outcome, err)
				}
			})
		}
	})
}

// The proof shows who holds the lock now, or that the document is gone. Without members a
// command knows that only if it finds the document by its pin.
func TestALossShowsTheDocument(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]locktest.Option{"members": {locktest.ReplicaSet()}, "alone": nil} {
		t.Run(name, func(t *testing.T) {
			mongotest.Own(t, opts...)
			p := newWorld(t, hello()).peer(relations.Fair())
			g := p.acquire(ann, "write", Granted)
			p.Change(bson.M{"$unset": bson.M{"lock": 1}})
			p.acquire(bob, "write", Granted)
			for _, deleted := range []bool{false, true} {
				if deleted {
					p.Document.Delete()
				}
				for command, byPin := range map[string]bool{
					"confirm": true, "renew": false, "look": false, "write": false, "finish": false,
					"release": false, "convert": true, "detach": false, "resume": true, "touch": true,
				} {
					shows := byPin || opts != nil
					got, err := modifying(p, g)[command](t.Context())
					held := got.Image != nil && len(got.Image.Lock.Entries) == 1 && got.Image.Lock.Entries[0].ID == bob
					if err != nil || got.Gone != (shows && deleted) || held != (shows && !deleted) {
						t.Errorf("%s, deleted %v: %+v, %v", command, deleted, got, err)
					}
				}
				if got, err := p.Engine.Delete(t.Context(), g); err != nil || got.Gone != deleted || (got.Image == nil) != deleted {
					t.Errorf("delete, deleted %v: %+v, %v", deleted, got, err)
				}
			}
		})
	}
}

// What the read finds takes the negative answer back, and so does a read without an
// answer: in both cases the command did nothing.
func TestRule27NegativeAnswersThatAreNotProven(t *testing.T) {
	t.Parallel()
	p, net := retrying(t, relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	if err := p.absent(t.Context(), p.Guard(g)); !isStale(err) {
		t.Errorf("the entry is there: %v", err)
	}
	g.Fence++
	if err := p.absent(t.Context(), p.Guard(g)); err != nil {
		t.Errorf("another fencing token: %v", err)
	}
	refuse := func(code int, name string) {
		net.ArmRewrite(faultnet.Refuse, "find", func(bson.Raw) any { return bson.M{"ok": 0, "code": code, "codeName": name, "errmsg": name} })
	}
	refuse(50, "MaxTimeMSExpired")
	_, err := p.Renew(t.Context(), g)
	if f := AsFailure(err); err == nil || !f.Unproven || !f.Nothing || !f.Passes {
		t.Errorf("the read was refused: %v", err)
	}
	refuse(123, "NotAReplicaSet")
	for range 2 { // the second time nothing is asked
		if got, err := p.Renew(t.Context(), g); got.Outcome != Lost || err != nil {
			t.Errorf("a server without members: %v, %v", got.Outcome, err)
		}
	}
}

func isStale(err error) bool {
	f := AsFailure(err)
	return f.Nothing && f.Passes && !f.Unproven && f.Cause == CauseRace
}

// An acquire waits for itself if it isn't granted after all others have done what they
// can: those who hold have released, and those who wait were granted, and have released.
// Beside random rules and images, Stuck says the same.
func TestStuckIsWhatNobodyElseCanEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := anyRules(t)
		e := &Engine{rules: rules}
		for range 20 {
			img, own := anyImage(t), (*Entry)(nil)
			tag := rapid.SampledFrom(rules.Tags()).Draw(t, "tag")
			if len(img.Lock.Entries) > 0 && rapid.IntRange(0, 2).Draw(t, "it waits in the document") == 0 {
				own = &img.Lock.Entries[0]
				own.Tag, own.Fence = tag, 0
			}
			var held []uuid.UUID
			for _, other := range img.Lock.Entries {
				if other.Held() && rapid.Bool().Draw(t, "the context's") {
					held = append(held, other.ID)
				}
			}
			entries, _ := e.InTheWay(e.Stuck(img, held), tag, own)
			if got, want := len(entries) > 0, waitsForItself(rules, img, held, tag, own); got != want {
				t.Fatalf("under %v, %q (%+v) in %+v of %v: %t, want %t", rules, tag, own, img.Lock.Entries, held, got, want)
			}
		}
	})
}

// waitsForItself has everybody do what they can, and then looks. An entry's tags are
// counted here without the library's own functions.
func waitsForItself(rules relations.Rules, img *Image, held []uuid.UUID, tag string, own *Entry) bool {
	there := slices.DeleteFunc(slices.Clone(img.Lock.Entries), func(e Entry) bool { return !img.Now.Before(e.Expires) })
	blocked := func(tag string, by *Entry) bool {
		count := map[string]int{}
		for _, other := range there {
			if by == nil || other.ID != by.ID && (other.Fence != 0 || other.Seq < by.Seq) {
				count[other.Tag]++
			}
		}
		for other, n := range count {
			relation, known := rules[tag][other], rules[other] != nil
			if !known || relation.Kind != relations.None && n > relation.Allow {
				return true
			}
		}
		return false
	}
	for {
		leaves := slices.IndexFunc(there, func(e Entry) bool {
			unknown := rules[e.Tag] == nil
			if e.Fence != 0 || unknown {
				return !slices.Contains(held, e.ID)
			}
			return (own == nil || e.ID != own.ID) && !blocked(e.Tag, &e)
		})
		if leaves < 0 {
			return blocked(tag, own)
		}
		there = slices.Delete(there, leaves, leaves+1)
	}
}

var threeTags = []string{"a", "b", "c"}

func anyRules(t *rapid.T) relations.Rules {
	rules := relations.Rules{}
	for _, x := range threeTags {
		rules[x] = map[string]relations.Relation{}
		for _, y := range threeTags {
			r := relations.Relation{Kind: relations.Kind(rapid.IntRange(0, 2).Draw(t, x+" to "+y))}
			if r.Kind != relations.None {
				r.Allow = max(0, rapid.IntRange(-4, 2).Draw(t, "allow"))
			}
			rules[x][y] = r
		}
	}
	return rules
}

// anyImage draws entries of these tags and of one that the rules don't have.
func anyImage(t *rapid.T) *Image {
	img := &Image{Now: epoch}
	for range rapid.IntRange(0, 7).Draw(t, "entries") {
		seq := int64(len(img.Lock.Entries)) + 1
		e := Entry{Tag: rapid.SampledFrom(append([]string{"unknown"}, threeTags...)).Draw(t, "of"), ID: uuid.UUID{byte(seq)}, Seq: seq, Expires: epoch.Add(time.Second)}
		if rapid.IntRange(0, 2).Draw(t, "held") == 0 {
			e.Fence = seq
		}
		if rapid.IntRange(0, 9).Draw(t, "expired") == 0 {
			e.Expires = epoch
		}
		img.Lock.Entries = append(img.Lock.Entries, e)
	}
	img.Lock.Entries = rapid.Permutation(img.Lock.Entries).Draw(t, "order")
	return img
}
