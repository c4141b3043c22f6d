package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

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
		must(t, err)
		var sent []string
		for _, command := range w.All() {
			sent = append(sent, fmt.Sprintf("%s %d", command.Index(0).Value().StringValue(), command.Lookup("query", "_id").AsInt64()))
		}
		if w.Take(); !slices.Equal(sent, want) {
			t.Fatalf("sent %v", sent)
		}
		for place, i := range order {
			if id := fmt.Sprint(leases[place].DocumentID().AsInt64()); id != want[i][len(want[i])-1:] {
				t.Errorf("the lease at %d is of document %s, and the want of %s", place, id, want[i])
			}
		}
		must(t, leases.Release(p.bounded()))
		if sent := w.Take(); len(sent) != 3 { // one for each Locker
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
	must(t, err)
	if first.Total != 10 || second.Total != 10 {
		t.Errorf("the targets are %v and %v", first, second)
	}
	if sent := w.Count(); sent != 2+1 {
		t.Errorf("%d commands", sent)
	}
}

func TestAcquireAllRefusesBadInput(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(2)
		coll, w := p.watched()
		l, same := p.locker(coll, relations.MultiGranularity()), p.locker(coll, relations.MultiGranularity())
		field := p.locker(coll, relations.Exclusive(), doclock.Field("second"))
		sharded := p.locker(coll, relations.MultiGranularity(), doclock.ShardKey("region"))
		zoned := p.locker(coll, relations.MultiGranularity(), doclock.ShardKey("area", "region"))
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
			"a map":             {[]multilock.Want{one, l.Want(bson.M{"_id": bson.M{"a": 1, "b": 2}}, "IS")}, 1, []string{"bson.D"}},
			"a nil option":      {[]multilock.Want{one, l.Want(doclock.ID(2), "IS", nil)}, 1, []string{"option 0 is nil"}},
			"a bad option":      {[]multilock.Want{one, l.Want(doclock.ID(2), "IS", doclock.MaxWait(-1))}, 1, []string{"MaxWait"}},
			"a tag in the way":  {[]multilock.Want{l.Want(doclock.ID(1), "X"), one}, 1, []string{"wants[1]", "wants[0] is of the same document"}},
			"a compatible tag":  {[]multilock.Want{one, l.Want(doclock.ID(2), "IS"), l.Want(doclock.ID(1.0), "IX")}, 2, []string{"wants[0]"}},
			"another Locker":    {[]multilock.Want{one, same.Want(doclock.ID(1), "IS")}, 1, []string{"one Locker"}},
			"another shard key": {[]multilock.Want{one, l.Want(doclock.ID(2), "IS"), sharded.Want(bson.M{"_id": 1, "region": "eu"}, "IS")}, 2, []string{"wants[0]", "one Locker"}},
			"fields in common":  {[]multilock.Want{sharded.Want(bson.M{"_id": 1, "region": "eu"}, "IS"), zoned.Want(bson.M{"_id": 1, "area": 7, "region": "us"}, "IS"), zoned.Want(bson.M{"_id": 1, "area": 7, "region": "eu"}, "IS")}, 0, []string{"wants[2]"}},
			"another filter":    {[]multilock.Want{one, l.Want(bson.M{"_id": 1, "total": 10}, "IS")}, 1, []string{"equal filters"}},
			"another option":    {[]multilock.Want{one, l.Want(doclock.ID(1), "IS", doclock.MaxWait(time.Second))}, 1, []string{"options"}},
			"beside good wants": {[]multilock.Want{field.Want(doclock.ID(1), "write"), one, one, l.Want(doclock.ID(1), "S")}, 3, []string{"wants[3]", "wants[1]"}},
		} {
			_, err := multilock.AcquireAll(p.Context(), c.wants...)
			fault{doclock.ErrInvalidArgument, c.says}.check(p, name, err)
			p.want(err, doclock.ErrNotAcquired)
			var which *multilock.WantError
			if errors.As(err, &which) != (c.index >= 0) || which != nil && which.Index != c.index {
				p.Errorf("%s: the error is of want %+v", name, which)
			}
			p.want(multilock.DoAll(p.Context(), func(context.Context, multilock.Leases) error {
				p.Errorf("%s: fn was called", name)
				return nil
			}, c.wants...), doclock.ErrInvalidArgument)
		}
		ended, cancel := context.WithCancel(p.Context())
		cancel()
		_, err := multilock.AcquireAll(ended, one)
		p.want(err, doclock.ErrNotAcquired, context.Canceled)
		var which *multilock.WantError
		if !errors.As(err, &which) || which.DocumentID.IsZero() || which.DocumentID.AsInt64() != 1 {
			p.Errorf("the error of an ended context names no document: %+v", which)
		}
		p.rest(same)
		p.want(errOf(multilock.AcquireAll(p.Context(), one, same.Want(doclock.ID(2), "IS"))), doclock.ErrNotAcquired, doclock.ErrClosed)
		session, err := coll.Database().Client().StartSession()
		must(p, err)
		defer session.EndSession(context.Background())
		must(p, session.StartTransaction())
		p.want(errOf(multilock.AcquireAll(mongo.NewSessionContext(p.Context(), session), one)), doclock.ErrNotAcquired, doclock.ErrInTransaction)
		if sent := w.Take(); len(sent) != 0 {
			p.Errorf("sent %v", sent)
		}
	})
}

type unreadable struct{ Panic string }

func (u *unreadable) UnmarshalBSON([]byte) error {
	if u.Panic != "" {
		panic(u.Panic)
	}
	return errors.New("unreadable")
}

// newPlaces are documents 1 to n of one collection, each with a total of 10.
func newPlaces(t testing.TB, n int) *place {
	t.Helper()
	p := newPlace(t)
	p.several(n)
	return p
}

// several has the documents 1 to n in the place of its own.
func (p *place) several(n int) {
	p.Helper()
	must(p, errOf(p.coll.DeleteMany(p.bounded(), bson.M{})))
	p.furnish(p.coll, n)
}

func (p *place) furnish(coll *mongo.Collection, n int) {
	p.Helper()
	for id := range n {
		_, err := coll.InsertOne(p.bounded(), bson.M{"_id": id + 1, "total": 10})
		must(p, err)
	}
}

type stored struct {
	Total   int
	Counted int
	Lock    lock
}

func (p *place) at(id any) (doc stored) {
	p.Helper()
	must(p, p.coll.FindOne(p.bounded(), doclock.ID(id)).Decode(&doc))
	return doc
}

// held are the ids of the documents that have an entry.
func (p *place) held() (ids []int) {
	p.Helper()
	cursor, err := p.coll.Find(p.bounded(), bson.M{})
	must(p, err)
	var docs []struct {
		ID   int `bson:"_id"`
		Lock lock
	}
	must(p, cursor.All(p.bounded(), &docs))
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
	ok(p, errOf(p.coll.UpdateOne(p.bounded(), doclock.ID(id), bson.M{"$unset": bson.M{"lock.tags": 1}})))
}

// of are write locks of these documents.
func of(l *multilock.Locker, ids ...any) (wants []multilock.Want) {
	for _, id := range ids {
		wants = append(wants, l.Want(doclock.ID(id), "write"))
	}
	return wants
}

// wantOf fails unless err is of this want, of this document.
func (p *place) wantOf(err error, index int, id int64) {
	p.Helper()
	var which *multilock.WantError
	if !errors.As(err, &which) || which.Index != index || which.Tag != "write" ||
		which.Collection != p.coll.Database().Name()+"."+p.coll.Name() || which.DocumentID.AsInt64() != id {
		p.Errorf("the error is of want %+v: %v", which, err)
	}
	p.want(err, doclock.ErrNotAcquired)
}

// One of three documents can't be had. Nothing stays locked when the call returns, no
// remainder of a HoldAtLeast either, and the error says which one and why. If the caller
// gives up, it returns at once, and the releases go on.
func TestAFailureInTheMiddleLeavesNothing(t *testing.T) {
	t.Parallel()
	cause := errors.New("the user has left")
	for name, c := range map[string]struct {
		filter   any
		opts     []doclock.AcquireOption
		document int64
		is       []error
		says     string
		gaveUp   bool // the caller, after a second
	}{
		"not found":     {bson.M{"_id": 2, "total": 11}, nil, 2, []error{doclock.ErrNotFound}, "", false},
		"unreadable":    {doclock.ID(2), []doclock.AcquireOption{doclock.Into(&unreadable{})}, 2, nil, "unreadable", false},
		"panic":         {doclock.ID(2), []doclock.AcquireOption{doclock.Into(&unreadable{"caller's own"})}, 2, nil, "", false},
		"held, one try": {doclock.ID(4), []doclock.AcquireOption{doclock.MaxWait(0)}, 4, []error{doclock.ErrConflict}, ".documents: not acquired: conflict: kept back by", false},
		"given up":      {doclock.ID(4), nil, 4, []error{context.Canceled, cause, doclock.ErrConflict}, "", true},
		"held, a while": {doclock.ID(4), []doclock.AcquireOption{doclock.MaxWait(time.Minute)}, 4, []error{doclock.ErrConflict}, "", false},
	} {
		virtually(t, name, func(p *place) {
			p.several(4)
			l, others := p.locker(p.coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Hour))
			p.got(others.TryAcquire(p.Context(), doclock.ID(4), "write"))
			wants := []multilock.Want{l.Want(doclock.ID(3), "write", doclock.HoldAtLeast(time.Hour)), l.Want(doclock.ID(1), "write"), l.Want(c.filter, "write", c.opts...)}
			ctx, cancel := context.WithCancelCause(p.Context())
			defer cancel(nil)
			if c.gaveUp {
				time.AfterFunc(time.Second, func() { cancel(cause) })
			}
			begun := time.Now()
			var err error
			panicked := recovered(func() {
				err = multilock.DoAll(ctx, func(context.Context, multilock.Leases) error {
					p.Error("fn was called")
					return nil
				}, wants...)
			})
			if took := time.Since(begun); c.gaveUp && took != time.Second {
				p.Errorf("it returned after %v", took)
			}
			p.eventually("nothing else is held", func() bool { return slices.Equal(p.held(), []int{4}) })
			if (panicked != nil) != (name == "panic") {
				p.Fatalf("recovered %v", panicked)
			}
			if panicked == nil {
				p.wantOf(err, 2, c.document)
				fault{doclock.ErrNotAcquired, []string{c.says}}.check(p, name, err)
				p.want(err, c.is...)
			}
		})
	}
}

// A lease is lost while another is waited for. The wait ends, and the error is of
// the lost one.
func TestALossDuringTheWait(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(3)
		l, others := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second)), p.locker(p.coll, relations.Exclusive())
		p.got(others.TryAcquire(p.bounded(), doclock.ID(3), "write"))
		time.AfterFunc(time.Second, func() { p.eraseOf(1) })
		_, err := multilock.AcquireAll(p.bounded(), of(l, 3, 2, 1)...)
		p.wantOf(err, 2, 1)
		p.wantNot(err, context.Canceled)
		p.wantNot(err, doclock.ErrLost) // which would say that a function has run
		if text := err.Error(); !strings.HasSuffix(text, ", while the other leases were acquired") || strings.Count(text, "document") != 2 {
			p.Errorf("the error is %v", err)
		}
		p.wantHeld(3)
	})
}

// The joint context ends with the first loss. The others are kept, and every release happens,
// though the context that bounded the wait and the work has ended.
func TestOneLossEndsTheJointContext(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(3)
		l := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second))
		cause := errors.New("the user has left")
		outer, cancel := context.WithCancelCause(p.Context())
		err := multilock.DoAll(outer, func(ctx context.Context, leases multilock.Leases) error {
			p.eraseOf(2)
			wait(p, ctx.Done())
			p.want(context.Cause(ctx), doclock.ErrLost)
			p.want(leases[1].Err(), doclock.ErrLost)
			time.Sleep(10 * time.Second)
			if leases[0].Err() != nil || leases[2].Err() != nil {
				p.Errorf("the others are %v and %v", leases[0], leases[2])
			}
			p.wantHeld(1, 3)
			cancel(cause)
			return context.Cause(outer)
		}, of(l, 1, 2, 3)...)
		p.wantVerdict("DoAll", err, doclock.ErrLost)
		p.want(err, cause)
		p.wantHeld()
	})
}

// A lease that fn releases doesn't end the joint context, not even the last one.
func TestTheJointContextOutlivesARelease(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 2)
	coll, w := p.watched()
	l := p.locker(coll, relations.Exclusive())
	p.sends(w, 2+2, "DoAll", func() error {
		return multilock.DoAll(t.Context(), func(ctx context.Context, leases multilock.Leases) error {
			for i, lease := range leases {
				if ctx.Err() != nil {
					t.Errorf("after %d releases the context is over: %v", i, context.Cause(ctx))
				}
				if err := lease.UpdateAndRelease(ctx, plusOne); err != nil {
					return err
				}
			}
			return context.Cause(ctx)
		}, of(l, 1, 2)...)
	})
	if p.at(1).Total != 11 || p.at(2).Total != 11 {
		t.Errorf("the totals are %d and %d", p.at(1).Total, p.at(2).Total)
	}
	p.wantHeld()
}

func TestTheJointContextEndsWithItsParent(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(2)
		l := p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Second), doclock.ClockTolerance(0))
		leases, err := multilock.AcquireAll(p.Context(), of(l, 1, 2)...)
		must(p, err)
		cause := errors.New("the user has left")
		outer, cancel := context.WithCancelCause(p.Context())
		ctx := leases.KeepAlive(outer)
		again := leases.KeepAlive(ctx)
		cancel(cause)
		for _, ctx := range []context.Context{ctx, again} {
			wait(p, ctx.Done())
			p.want(context.Cause(ctx), cause)
		}
		for _, lease := range leases {
			wait(p, lease.Done()) // which nobody renews any more
		}
		p.want(context.Cause(leases.KeepAlive(p.Context())), doclock.ErrLost)
		ok(p, leases.Release(p.Context())) // nobody was let in
		p.wantHeld()
	})
}

// Each error of a release names its document.
func TestReleaseOfSeveralNamesTheLost(t *testing.T) {
	t.Parallel()
	p := newPlaces(t, 3)
	l := p.locker(p.coll, relations.Exclusive())
	for _, how := range []struct {
		taken fault
		end   func(doclock.Lease)
	}{
		{fault{doclock.ErrLost, []string{`"write" on document 3`, `"write" on document 2`}}, func(lost doclock.Lease) {
			taken, err := p.locker(p.coll, relations.Exclusive()).TryAcquire(p.bounded(), doclock.ID(lost.DocumentID()), "write",
				doclock.TakeOver(doclock.Holder{ID: lost.ID(), Fence: lost.Fence()}))
			must(t, err)
			ok(t, taken.Release(p.bounded()))
		}},
		// Nothing says in which documents somebody else was faster than the release.
		{fault{doclock.ErrOutcomeUnknown, []string{`"write" on document 3`, `"write" on document 2`, "nobody knows which"}},
			func(lost doclock.Lease) { p.eraseOf(lost.DocumentID()) }},
	} {
		leases, err := multilock.AcquireAll(p.bounded(), of(l, 3, 2, 1, 2)...)
		must(t, err)
		how.end(leases[0])
		how.end(leases[1])
		err = leases.Release(p.bounded())
		how.taken.check(t, "Release", err)
		p.want(leases.Release(p.bounded()), how.taken.is)
		p.wantHeld()
	}
	ok(t, multilock.Leases{}.Release(p.bounded()))
}

// A release that was refused is judged when the others are answered: the lease's time may be up by then.
func TestReleaseOfSeveralIsJudgedAtItsEnd(t *testing.T) {
	virtual(t, func(p *place) {
		one, other := p.plain(relations.Exclusive()), p.plain(relations.Exclusive()) // so that each has a command
		leases, err := multilock.AcquireAll(p.Context(), one.Want(flowers, "write"), other.Want(doclock.ID(2), "write"))
		must(p, err)
		time.Sleep(8 * time.Second)
		p.mem.Fail(1, mongo.CommandError{Code: 13}, locktest.Releases)
		p.mem.Delay(1, 5*time.Second/2, locktest.Releases)
		p.want(leases.Release(p.Context()), doclock.ErrOutcomeUnknown)
		time.Sleep(time.Second)
	})
}

// A nil lease is lost, and the others are renewed and released, and then renewed no more. Without any
// lease the context ends with its parent.
func TestLeasesWithoutALease(t *testing.T) {
	virtual(t, func(p *place) {
		lease := p.try(p.plain(relations.Exclusive(), doclock.TTL(doclock.MinTTL)), "write")
		leases := multilock.Leases{nil, lease, nil}
		p.want(context.Cause(leases.KeepAlive(p.Context())), doclock.ErrLost)
		parent, end := context.WithCancel(p.Context())
		none := multilock.Leases{}.KeepAlive(parent)
		time.Sleep(time.Minute)
		ok(p, lease.Err())
		ok(p, none.Err())
		end()
		wait(p, none.Done())
		p.want(leases.Renew(p.Context()), doclock.ErrLost)
		p.want(leases.Release(p.Context()), doclock.ErrLost)
		p.want(leases[1:2].Renew(p.Context()), doclock.ErrReleased)
		p.wantEntries()
	})
}

// fake is a lease of a caller's own.
type fake struct {
	doclock.Lease
	released int
	err      error
}

func (f *fake) Release(context.Context) error {
	f.released++
	return f.err
}

// A fake among the leases has its own Release and KeepAlive called. Of many errors the text has few.
func TestLeasesWithAFake(t *testing.T) {
	virtual(t, func(p *place) {
		p.several(2)
		l := p.locker(p.coll, relations.Exclusive())
		leases, err := multilock.AcquireAll(p.Context(), of(l, 1, 2)...)
		must(p, err)
		f := &fake{Lease: leases[1], err: fmt.Errorf("%w: 1", doclock.ErrOutcomeUnknown)}
		both := multilock.Leases{leases[0], f}
		ctx := both.KeepAlive(p.Context())
		time.Sleep(10 * calm)
		ok(p, ctx.Err())
		p.want(both.Release(p.Context()), doclock.ErrOutcomeUnknown)
		if f.released != 1 {
			p.Errorf("it was released %d times", f.released)
		}
		many := multilock.Leases{f, &fake{err: errors.New("2")}, &fake{err: errors.New("3")}, &fake{err: errors.New("4")}, &fake{err: doclock.ErrLost}}
		if err := many.Release(p.Context()); err.Error() != "doclock: lock lost; outcome unknown: 1; 2; and 2 more" || !errors.Is(err, many[3].(*fake).err) {
			p.Errorf("%v", err)
		}
		p.wantHeld(2)
		ok(p, leases[1].Release(p.Context()))
		wait(p, ctx.Done())
		p.want(context.Cause(ctx), doclock.ErrReleased)
	})
}

// A call that fails returns a nil lease: an interface with nothing in it.
func TestAFailedCallReturnsANilLease(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	simple, err := writelock.New(p.coll)
	must(t, err)
	p.Cleanup(func() { ok(p, simple.Close(p.bounded())) })
	holder, ctx := p.try(l, "write"), p.within(time.Minute)
	ticket := p.enqueue(l, "write")
	ended, end := context.WithCancel(ctx)
	end()
	for name, call := range map[string]func() (doclock.Lease, error){
		"TryAcquire":                      func() (doclock.Lease, error) { return l.TryAcquire(ctx, flowers, "write") },
		"TryAcquire of an unknown tag":    func() (doclock.Lease, error) { return l.TryAcquire(ctx, flowers, "!") },
		"Acquire":                         func() (doclock.Lease, error) { return l.Acquire(ctx, flowers, "read", doclock.MaxWait(0)) },
		"Acquire of an unknown tag":       func() (doclock.Lease, error) { return l.Acquire(ctx, flowers, "!") },
		"a claim":                         func() (doclock.Lease, error) { return l.TryAcquire(ctx, flowers, "write", doclock.SkipLocked()) },
		"Confirm":                         func() (doclock.Lease, error) { return ticket.Confirm(ctx) },
		"Wait":                            func() (doclock.Lease, error) { return ticket.Wait(ended) },
		"Resume":                          func() (doclock.Lease, error) { return l.Resume(ctx, flowers, "!") },
		"Convert":                         func() (doclock.Lease, error) { return holder.Convert(ended, "write") },
		"Convert to an unknown tag":       func() (doclock.Lease, error) { return holder.Convert(ctx, "!") },
		"TryAcquire of package writelock": func() (doclock.Lease, error) { return simple.TryAcquire(ctx, flowers) },
		"Acquire of package writelock":    func() (doclock.Lease, error) { return simple.Acquire(ctx, flowers, doclock.MaxWait(0)) },
		"Resume of package writelock":     func() (doclock.Lease, error) { return simple.Resume(ctx, flowers, "!") },
	} {
		if lease, err := call(); lease != nil || err == nil {
			t.Errorf("%s returned a %T, %v", name, lease, err)
		}
	}
	if leases, err := multilock.AcquireAll(ended, l.Want(flowers, "write")); leases != nil || err == nil {
		t.Errorf("AcquireAll returned %v, %v", leases, err)
	}
	ok(p, ticket.Cancel(ctx))
	p.release(holder)
}
