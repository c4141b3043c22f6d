package admin_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// office has n documents, each with an entry of "gone" that is held, one that
// waits, and one of "here".
func office(p *place, n int) {
	p.Helper()
	owned := func(i, fence int64, owner string) bson.D {
		return bson.D{{Key: "id", Value: binary(uuid.New())}, {Key: "owner", Value: owner}, {Key: "seq", Value: i}, {Key: "fence", Value: fence},
			{Key: "since", Value: at(0)}, {Key: "expires", Value: at(time.Minute)}}
	}
	var docs []any
	for i := range n {
		waiting := owned(4, 0, "gone")
		waiting = slices.DeleteFunc(waiting, func(e bson.E) bool { return e.Key == "fence" })
		docs = append(docs, bson.D{idIs(i), {Key: "n", Value: i}, lock(9, tag("read", owned(1, 2, "gone"), owned(3, 3, "here")), tag("write", waiting))})
	}
	if _, err := p.Hand.InsertMany(context.Background(), docs); err != nil {
		p.Fatal(err)
	}
}

// All entries of the owner go, in one command for a hundred, and no others.
func TestRemove(t *testing.T) {
	p := newPlace(t)
	office(p, 120)
	p.Insert(idIs("foreign"), bson.E{Key: "lock", Value: "gone"})
	count, err := admin.Remove(t.Context(), p.coll, admin.Query{Owner: "gone"}, p.clocked())
	if err != nil || count != (admin.Count{Removed: 240, Foreign: 1}) {
		t.Errorf("%+v, %v", count, err)
	}
	p.sends("Remove", "find", "update", "update", "update")
	left, _ := p.list(admin.Query{}, p.clocked())
	if len(left) != 120 || slices.ContainsFunc(left, func(e admin.Entry) bool { return e.Owner != "here" }) {
		t.Errorf("%d entries are left", len(left))
	}
	if count, err := admin.Remove(t.Context(), p.coll, admin.Query{Owner: "gone"}, p.clocked()); err != nil || count != (admin.Count{Foreign: 1}) {
		t.Errorf("again: %+v, %v", count, err)
	}
	if count, err := admin.Remove(t.Context(), p.coll, admin.Query{Owner: "here"}, p.clocked(), admin.Within(bson.M{"n": bson.M{"$lt": 5}})); err != nil || count.Removed != 5 {
		t.Errorf("Within: %+v, %v", count, err)
	}
	if count, err := admin.Remove(t.Context(), p.coll, admin.Query{OwnerPrefix: "he"}, p.clocked()); err != nil || count != (admin.Count{Removed: 115, Foreign: 1}) {
		t.Errorf("a prefix: %+v, %v", count, err)
	}
}

// Each query removes what it lists, and no more. "f" is under a name that no rules
// can have, and stays.
func TestRemoveTakesAnyQuery(t *testing.T) {
	t.Parallel()
	for _, c := range queries {
		if c.name == "all" || c.name == "live" {
			continue // refused: TestBadArguments
		}
		t.Run(c.name, func(t *testing.T) {
			p := newPlace(t)
			several(p)
			count, err := admin.Remove(t.Context(), p.coll, c.query, p.clocked())
			if err != nil || count.Foreign != int64(c.foreign) {
				t.Errorf("%+v, %v", count, err)
			}
			var stay []string
			for _, name := range []string{"a", "b", "c", "d", "f"} {
				if name == "f" || !slices.Contains(c.want, name) {
					stay = append(stay, name)
				}
			}
			left, _ := p.list(admin.Query{}, p.clocked())
			if got := sorted(names(left)); !slices.Equal(got, stay) || count.Removed != int64(5-len(stay)) {
				t.Errorf("%+v; %v are left, want %v", count, got, stay)
			}
		})
	}
}

// The owner's program is refused from then on, and everybody else works on.
func TestRemoveOfARunningProgram(t *testing.T) {
	p := newPlace(t)
	gone, here := p.locker(relations.Semaphore(3), doclock.Owner("gone")), p.locker(relations.Semaphore(3), doclock.Owner("here"))
	var lost, kept []*doclock.Lease
	for i := range 10 {
		p.Insert(idIs(i))
		lost, kept = append(lost, p.acquire(gone, i, "slot")), append(kept, p.acquire(here, i, "slot"))
	}
	if count, err := admin.Remove(t.Context(), p.coll, admin.Query{Owner: "gone"}); err != nil || count.Removed != 10 {
		t.Errorf("%+v, %v", count, err)
	}
	for i := range lost {
		p.want(lost[i].Update(t.Context(), bson.M{"$set": bson.M{"late": true}}), doclock.ErrLost)
		if err := kept[i].UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"done": true}}); err != nil {
			t.Error(err)
		}
	}
}

// One document that can't be written doesn't keep the others from being
// released. Its error comes at the end.
func TestRemoveGoesOnAfterARefusal(t *testing.T) {
	p := newPlace(t)
	office(p, 150)
	net := faultnet.New()
	coll := p.Through(options.Client().SetDialer(net))
	net.ArmRewrite(faultnet.Refuse, "update", func(bson.Raw) any {
		return bson.M{"ok": 1, "n": 0, "nModified": 0, "writeErrors": bson.A{bson.M{"index": 0, "code": 121, "errmsg": "Document failed validation"}}}
	})
	count, err := admin.Remove(t.Context(), coll, admin.Query{Owner: "gone"}, p.clocked())
	if err == nil || errors.Is(err, doclock.ErrOutcomeUnknown) || count.Removed != 200 {
		t.Errorf("%+v, %v", count, err)
	}
	if left, _ := p.list(admin.Query{Owner: "gone"}, p.clocked()); len(left) != 100 {
		t.Errorf("%d are left", len(left))
	}
}

// An answer that is lost ends the work, with what is known to be done. A further
// call does the rest.
func TestRemoveOfUnknownOutcome(t *testing.T) {
	p := newPlace(t)
	office(p, 150)
	net := faultnet.New()
	lose := func() { net.Arm(faultnet.LoseReply, "update") }
	coll := p.whenFirst("update", lose, options.Client().SetDialer(net).SetRetryWrites(false))
	count, err := admin.Remove(fixture.Bounded(t), coll, admin.Query{Owner: "gone"}, p.clocked())
	p.want(err, doclock.ErrOutcomeUnknown)
	if count.Removed != 100 {
		t.Errorf("%+v", count)
	}
	if count, err := admin.Remove(fixture.Bounded(t), coll, admin.Query{Owner: "gone"}, p.clocked()); err != nil || count.Removed != 100 {
		t.Errorf("the rest: %+v, %v", count, err)
	}
	if left, _ := p.list(admin.Query{}, p.clocked()); len(left) != 150 {
		t.Errorf("%d are left", len(left))
	}
}

// A context that ends ends the work.
func TestRemoveCancelled(t *testing.T) {
	p := newPlace(t)
	office(p, 150)
	ctx, cancel := context.WithCancel(t.Context())
	coll := p.whenFirst("update", cancel, options.Client())
	count, err := admin.Remove(ctx, coll, admin.Query{Owner: "gone"}, p.clocked())
	p.want(err, context.Canceled)
	if count.Removed != 100 {
		t.Errorf("%+v", count)
	}
}
