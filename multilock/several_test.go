package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// newPlaces are documents 1 to n of one collection, each with a total of 10.
func newPlaces(t testing.TB, n int) *place {
	t.Helper()
	d := fixture.NoDocument(t)
	p := &place{Document: d, coll: d.Hand}
	p.furnish(p.coll, n)
	return p
}

func (p *place) furnish(coll *mongo.Collection, n int) {
	p.Helper()
	for id := range n {
		if _, err := coll.InsertOne(p.bounded(), bson.M{"_id": id + 1, "total": 10}); err != nil {
			p.Fatal(err)
		}
	}
}

type stored struct {
	Total int
	Lock  lock
}

func (p *place) at(id any) (doc stored) {
	p.Helper()
	if err := p.coll.FindOne(p.bounded(), doclock.ID(id)).Decode(&doc); err != nil {
		p.Fatal(err)
	}
	return doc
}

// held are the ids of the documents that have an entry.
func (p *place) held() (ids []int) {
	p.Helper()
	cursor, err := p.coll.Find(p.bounded(), bson.M{})
	if err != nil {
		p.Fatal(err)
	}
	var docs []struct {
		ID   int `bson:"_id"`
		Lock lock
	}
	if err := cursor.All(p.bounded(), &docs); err != nil {
		p.Fatal(err)
	}
	for _, doc := range docs {
		for _, entries := range doc.Lock.Tags {
			for range entries {
				ids = append(ids, doc.ID)
			}
		}
	}
	slices.Sort(ids)
	return ids
}

func (p *place) wantHeld(ids ...int) {
	p.Helper()
	if held := p.held(); !slices.Equal(held, ids) {
		p.Errorf("entries are in the documents %v, want %v", held, ids)
	}
}

func (p *place) eraseOf(id any) {
	p.Helper()
	if _, err := p.coll.UpdateOne(p.bounded(), doclock.ID(id), bson.M{"$unset": bson.M{"lock.tags": 1}}); err != nil {
		p.Error(err)
	}
}

// of are write locks of these documents.
func of(l *multilock.Locker, ids ...any) (wants []multilock.Want) {
	for _, id := range ids {
		wants = append(wants, l.Want(doclock.ID(id), "write"))
	}
	return wants
}

func TestDoAllMovesMoney(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	coll, w := p.watched()
	accounts := p.locker(coll, relations.Exclusive())
	var from, to stored
	err := multilock.DoAll(t.Context(), func(ctx context.Context, leases multilock.Leases) error {
		if err := leases[0].Update(ctx, bson.M{"$set": bson.M{"total": from.Total - 3}}); err != nil {
			return err
		}
		return leases[1].Update(ctx, bson.M{"$set": bson.M{"total": to.Total + 3}})
	}, accounts.Want(doclock.ID(2), "write", doclock.Into(&from)), accounts.Want(doclock.ID(1), "write", doclock.Into(&to)))
	if err != nil {
		t.Fatal(err)
	}
	if p.at(2).Total != 7 || p.at(1).Total != 13 {
		t.Errorf("the totals are %d and %d", p.at(2).Total, p.at(1).Total)
	}
	if sent := w.count(); sent != 2+2+2 {
		t.Errorf("%d commands", sent)
	}
	p.wantHeld()
}

// The commands go in the canonical order, the leases are in the callers'. A set
// of k documents takes k acquires and k releases where nobody else is there.
func TestAcquireAllGoesInOneOrder(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	coll, w := p.watched()
	categories := coll.Database().Collection("categories")
	p.furnish(p.coll.Database().Collection("categories"), 3)
	documents, others := p.locker(coll, relations.Exclusive()), p.locker(categories, relations.WritePreferring())
	second := p.locker(coll, relations.Exclusive(), doclock.Field("second"))
	wants := []multilock.Want{
		others.Want(doclock.ID(1.0), "read"),
		others.Want(doclock.ID(int64(3)), "write"),
		documents.Want(doclock.ID(1), "write"),
		documents.Want(bson.D{{Key: "total", Value: 10}, {Key: "_id", Value: int64(2)}}, "write"),
		documents.Want(doclock.ID(3), "write"),
		second.Want(doclock.ID(1.0), "write"),
	}
	want := []string{"categories 1", "categories 3", "documents 1", "documents 2", "documents 3", "documents 1"}
	for range 10 {
		order := rand.Perm(len(wants))
		var shuffled []multilock.Want
		for _, i := range order {
			shuffled = append(shuffled, wants[i])
		}
		leases, err := multilock.AcquireAll(p.bounded(), shuffled...)
		if err != nil {
			t.Fatal(err)
		}
		var sent []string
		for _, command := range w.All() {
			sent = append(sent, fmt.Sprintf("%s %d", command.Index(0).Value().StringValue(), command.Lookup("query", "_id").AsInt64()))
		}
		if w.commands(); !slices.Equal(sent, want) {
			t.Fatalf("sent %v", sent)
		}
		for place, i := range order {
			if id := fmt.Sprint(leases[place].DocumentID().AsInt64()); id != want[i][len(want[i])-1:] {
				t.Errorf("the lease at %d is of document %s, and the want of %s", place, id, want[i])
			}
		}
		if err := leases.Release(p.bounded()); err != nil {
			t.Fatal(err)
		}
		if sent := w.commands(); len(sent) != len(wants) {
			t.Errorf("the releases sent %v", sent)
		}
	}
	p.wantHeld()
}

// Equal wants are one lease, and each one's target gets the document.
func TestEqualWantsAreOneLease(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	var first, second stored
	err := multilock.DoAll(t.Context(), func(ctx context.Context, leases multilock.Leases) error {
		if leases[0] != leases[2] || leases[0] != leases[3] || leases[0] == leases[1] {
			t.Errorf("the leases are %v", leases)
		}
		return nil
	},
		l.Want(doclock.ID(2), "write"),
		l.Want(doclock.ID(1), "write"),
		l.Want(doclock.ID(2.0), "write", doclock.Into(&first)),
		l.Want(bson.M{"_id": int64(2)}, "write", doclock.Into(&second)))
	if err != nil {
		t.Fatal(err)
	}
	if first.Total != 10 || second.Total != 10 {
		t.Errorf("the targets are %v and %v", first, second)
	}
	if sent := w.count(); sent != 2+2 {
		t.Errorf("%d commands", sent)
	}
}

func TestAcquireAllRefusesBadInput(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	coll, w := p.watched()
	l, same := p.locker(coll, relations.MultiGranularity()), p.locker(coll, relations.MultiGranularity())
	field := p.locker(coll, relations.Exclusive(), doclock.Field("second"))
	one := l.Want(doclock.ID(1), "IS")
	for name, c := range map[string]struct {
		wants []multilock.Want
		index int
		says  []string
	}{
		"none":              {nil, -1, []string{"no wants", "one at least"}},
		"an empty Want":     {[]multilock.Want{one, {}}, 1, []string{"wants[1]", "a Locker's Want"}},
		"no tag":            {[]multilock.Want{one, l.Want(doclock.ID(2), "write")}, 1, []string{"wants[1]", `"write"`, "tags: IS"}},
		"no _id":            {[]multilock.Want{one, l.Want(bson.M{"total": 10}, "IS")}, 1, []string{"wants[1]", "equal _id"}},
		"a range of _ids":   {[]multilock.Want{one, l.Want(bson.M{"_id": bson.M{"$gt": 1}}, "IS")}, 1, []string{"equal _id"}},
		"no filter":         {[]multilock.Want{one, l.Want(nil, "IS")}, 1, []string{"filter"}},
		"a nil option":      {[]multilock.Want{one, l.Want(doclock.ID(2), "IS", nil)}, 1, []string{"option 0 is nil"}},
		"a bad option":      {[]multilock.Want{one, l.Want(doclock.ID(2), "IS", doclock.MaxWait(-1))}, 1, []string{"MaxWait"}},
		"a tag in the way":  {[]multilock.Want{l.Want(doclock.ID(1), "X"), one}, 1, []string{"wants[1]", "wants[0] is of the same document"}},
		"a compatible tag":  {[]multilock.Want{one, l.Want(doclock.ID(2), "IS"), l.Want(doclock.ID(1.0), "IX")}, 2, []string{"wants[0]"}},
		"another Locker":    {[]multilock.Want{one, same.Want(doclock.ID(1), "IS")}, 1, []string{"one Locker"}},
		"another filter":    {[]multilock.Want{one, l.Want(bson.M{"_id": 1, "total": 10}, "IS")}, 1, []string{"equal filters"}},
		"another option":    {[]multilock.Want{one, l.Want(doclock.ID(1), "IS", doclock.MaxWait(time.Second))}, 1, []string{"options"}},
		"beside good wants": {[]multilock.Want{field.Want(doclock.ID(1), "write"), one, one, l.Want(doclock.ID(1), "S")}, 3, []string{"wants[3]", "wants[1]"}},
	} {
		_, err := multilock.AcquireAll(t.Context(), c.wants...)
		fault{doclock.ErrInvalidArgument, c.says}.check(t, name, err)
		p.want(err, doclock.ErrNotAcquired)
		var which *multilock.WantError
		if errors.As(err, &which) != (c.index >= 0) || which != nil && which.Index != c.index {
			t.Errorf("%s: the error is of want %+v", name, which)
		}
		p.want(multilock.DoAll(t.Context(), func(context.Context, multilock.Leases) error {
			t.Errorf("%s: fn was called", name)
			return nil
		}, c.wants...), doclock.ErrInvalidArgument)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := multilock.AcquireAll(ended, one)
	p.want(err, doclock.ErrNotAcquired, context.Canceled)
	var which *multilock.WantError
	if !errors.As(err, &which) || which.DocumentID.IsZero() || which.DocumentID.AsInt64() != 1 {
		t.Errorf("the error of an ended context names no document: %+v", which)
	}
	p.rest(same)
	_, err = multilock.AcquireAll(t.Context(), one, same.Want(doclock.ID(2), "IS"))
	p.want(err, doclock.ErrNotAcquired, doclock.ErrClosed)
	session, err := coll.Database().Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	_, err = multilock.AcquireAll(mongo.NewSessionContext(t.Context(), session), one)
	p.want(err, doclock.ErrNotAcquired, doclock.ErrInTransaction)
	if sent := w.commands(); len(sent) != 0 {
		t.Errorf("sent %v", sent)
	}
}

type unreadable struct{ Panic string }

func (u *unreadable) UnmarshalBSON([]byte) error {
	if u.Panic != "" {
		panic(u.Panic)
	}
	return errors.New("unreadable")
}

// One of three documents can't be had. Nothing stays locked when the call
// returns, and the error says which one and why.
func TestAFailureInTheMiddleLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		want  func(*multilock.Locker) multilock.Want
		is    []error
		index int
	}{
		"not found": {func(l *multilock.Locker) multilock.Want { return l.Want(bson.M{"_id": 2, "total": 11}, "write") }, []error{doclock.ErrNotFound}, 2},
		"unreadable": {func(l *multilock.Locker) multilock.Want {
			return l.Want(doclock.ID(2), "write", doclock.Into(&unreadable{}))
		}, nil, 2},
		"panic": {func(l *multilock.Locker) multilock.Want {
			return l.Want(doclock.ID(2), "write", doclock.Into(&unreadable{"caller's own"}))
		}, nil, -1},
		"held, one try": {func(l *multilock.Locker) multilock.Want { return l.Want(doclock.ID(4), "write", doclock.MaxWait(0)) }, []error{doclock.ErrConflict}, 2},
		"held, a while": {func(l *multilock.Locker) multilock.Want {
			return l.Want(doclock.ID(4), "write", doclock.MaxWait(100*time.Millisecond))
		}, []error{doclock.ErrConflict}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlaces(t, 4)
			l, others := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
			holder, err := others.TryAcquire(p.bounded(), doclock.ID(4), "write")
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if r := recover(); (r != nil) != (c.index < 0) {
					t.Errorf("recovered %v", r)
				}
				p.eventually("nothing else is held", func() bool { return slices.Equal(p.held(), []int{4}) })
				p.release(holder)
			}()
			err = multilock.DoAll(t.Context(), func(context.Context, multilock.Leases) error {
				t.Error("fn was called")
				return nil
			}, append(of(l, 3, 1), c.want(l))...)
			if name != "unreadable" { // whose own lease is released in the background
				p.wantHeld(4)
			}
			p.want(err, append(c.is, doclock.ErrNotAcquired)...)
			var which *multilock.WantError
			if !errors.As(err, &which) || which.Index != c.index || which.Tag != "write" || which.Collection != p.coll.Database().Name()+"."+p.coll.Name() ||
				which.DocumentID.AsInt64() != 2 && which.DocumentID.AsInt64() != 4 {
				t.Errorf("the error is of want %+v: %v", which, err)
			}
			if slices.Contains(c.is, doclock.ErrConflict) && p.conflict(err).Holders[0].ID != holder.ID() {
				t.Errorf("the conflict is %v", err)
			}
		})
	}
}

// The caller's context ends during the wait: the call returns at once, and the
// releases go on.
func TestAcquireAllWhoseCallerGivesUp(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	l, others := p.locker(p.coll, relations.Fair()), p.locker(p.coll, relations.Fair())
	holder, err := others.TryAcquire(p.bounded(), doclock.ID(2), "write")
	if err != nil {
		t.Fatal(err)
	}
	cause := errors.New("the user has left")
	ctx, cancel := context.WithCancelCause(t.Context())
	call := begin(t, func() (multilock.Leases, error) { return multilock.AcquireAll(ctx, of(l, 1, 2, 3)...) })
	p.eventually("it waits", func() bool { return slices.Equal(p.held(), []int{1, 2, 2}) })
	cancel(cause)
	_, err = call.wait()
	p.want(err, doclock.ErrNotAcquired, context.Canceled, cause, doclock.ErrConflict)
	p.eventually("nothing of it is left", func() bool { return slices.Equal(p.held(), []int{2}) })
	p.release(holder)
}

// A lease that was acquired early must not expire while a later one is waited
// for.
func TestEarlierLeasesAreRenewedDuringTheWait(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	l, others := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second), doclock.ClockTolerance(0)), p.locker(p.coll, relations.Exclusive())
	holder, err := others.TryAcquire(p.bounded(), doclock.ID(2), "write")
	if err != nil {
		t.Fatal(err)
	}
	call := begin(t, func() (multilock.Leases, error) { return multilock.AcquireAll(p.bounded(), of(l, 2, 1)...) })
	p.eventually("the first is held", func() bool { return len(p.at(1).Lock.Tags["write"]) == 1 })
	first := p.at(1).Lock.Tags["write"][0]
	p.eventually("its entry outlives two TTLs", func() bool {
		entries := p.at(1).Lock.Tags["write"]
		return len(entries) != 1 || entries[0].Expires.Sub(first.Expires) > 2*time.Second
	})
	p.release(holder)
	leases, err := call.wait()
	if err != nil {
		t.Fatal(err)
	}
	if id := leases[1].ID(); string(id[:]) != string(first.ID.Data) || leases[1].Err() != nil {
		t.Errorf("the first lease is %v", leases[1])
	}
	if err := leases.Release(p.bounded()); err != nil {
		t.Error(err)
	}
}

// A lease is lost while another is waited for. The wait ends, and the error is of
// the lost one.
func TestALossDuringTheWait(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	l, others := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second)), p.locker(p.coll, relations.Exclusive())
	holder, err := others.TryAcquire(p.bounded(), doclock.ID(3), "write")
	if err != nil {
		t.Fatal(err)
	}
	call := begin(t, func() (multilock.Leases, error) { return multilock.AcquireAll(p.bounded(), of(l, 3, 2, 1)...) })
	p.eventually("it waits", func() bool { return slices.Equal(p.held(), []int{1, 2, 3}) })
	p.eraseOf(1)
	_, err = call.wait()
	p.want(err, doclock.ErrNotAcquired, doclock.ErrLost)
	p.wantNot(err, context.Canceled)
	var which *multilock.WantError
	if !errors.As(err, &which) || which.Index != 2 || which.DocumentID.AsInt64() != 1 {
		t.Errorf("the error is of %+v: %v", which, err)
	}
	p.wantHeld(3)
	p.release(holder)
}

// Callers with random sets, in any order, through several Lockers: everybody
// gets through, and nobody meets another.
func TestNoDeadlockOfOverlappingSets(t *testing.T) {
	t.Parallel()
	const documents, callers, rounds = 5, 9, 6
	p := newPlaces(t, documents)
	lockers := []*multilock.Locker{p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())}
	var all sync.WaitGroup
	for caller := range callers {
		all.Go(func() {
			for range rounds {
				l := lockers[caller%len(lockers)]
				docs := make([]stored, 2+rand.N(documents-2))
				var wants []multilock.Want
				for i, id := range rand.Perm(documents)[:len(docs)] {
					wants = append(wants, l.Want(doclock.ID(id+1), "write", doclock.Into(&docs[i])))
				}
				err := multilock.DoAll(p.bounded(), func(ctx context.Context, leases multilock.Leases) error {
					for i, lease := range leases {
						if err := lease.Update(ctx, bson.M{"$set": bson.M{"total": docs[i].Total + 1}, "$inc": bson.M{"counted": 1}}); err != nil {
							return err
						}
					}
					return nil
				}, wants...)
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	p.wantHeld()
	for id := range documents {
		raw, err := p.coll.FindOne(p.bounded(), doclock.ID(id+1)).Raw()
		if err != nil {
			t.Fatal(err)
		}
		if total, counted := raw.Lookup("total").AsInt64(), raw.Lookup("counted").AsInt64(); total != 10+counted {
			t.Errorf("document %d: total %d after %d increments of 10", id+1, total, counted)
		}
	}
}
