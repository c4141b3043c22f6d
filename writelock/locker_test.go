package writelock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func TestOneHolderAtATime(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.watched(), doclock.Owner("ann"))
	lease := p.try(l)
	p.sends(1, "TryAcquire")
	if lease.Tag() != writelock.Tag || lease.DocumentID().AsInt64() != 1 {
		t.Errorf("the lease is of tag %q, document %v", lease.Tag(), lease.DocumentID())
	}
	p.heldBy(lease)
	_, err := l.TryAcquire(t.Context(), order)
	p.sends(1, "a refused TryAcquire")
	var c *doclock.ConflictError
	if !errors.As(err, &c) || len(c.Holders) != 1 || c.Holders[0].ID != lease.ID() || c.Holders[0].Owner != "ann" {
		t.Errorf("the error is %v", err)
	}
	p.heldBy(lease)
	p.release(lease)
	p.sends(1, "Release")
	p.heldBy(nil)
	_, err = l.TryAcquire(t.Context(), bson.M{"_id": 2})
	p.want(err, doclock.ErrNotFound)
}

func TestReadModifyWriteIsTwoCommands(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.watched())
	var doc document
	lease, err := l.Acquire(t.Context(), order, doclock.Into(&doc))
	if err != nil {
		t.Fatal(err)
	}
	if doc.Total != 1 || doc.Lock.Tags.Write != nil {
		t.Errorf("the document is %+v", doc)
	}
	if err := lease.UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"total": doc.Total + 1}}); err != nil {
		t.Fatal(err)
	}
	p.sends(2, "read-modify-write")
	if got := p.stored().Total; got != 2 {
		t.Errorf("total is %d", got)
	}
	p.heldBy(nil)
}

func TestAcquireWaits(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.Hand)
	holder := p.try(l)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := l.Acquire(ctx, order)
	p.want(err, context.DeadlineExceeded, doclock.ErrConflict)

	released := make(chan error, 1)
	time.AfterFunc(50*time.Millisecond, func() { released <- holder.Release(fixture.Bounded(p)) })
	lease, err := l.Acquire(fixture.Bounded(p), order)
	if err != nil {
		t.Fatal(err)
	}
	if err := <-released; err != nil {
		t.Errorf("Release: %v", err)
	}
	if lease.Fence() <= holder.Fence() {
		t.Errorf("the token went from %d to %d", holder.Fence(), lease.Fence())
	}
	p.heldBy(lease)
}

func TestDo(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.watched())
	var doc document
	err := l.Do(t.Context(), order, func(ctx context.Context, lease *doclock.Lease) error {
		p.heldBy(lease)
		return lease.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"total": doc.Total}})
	}, doclock.Into(&doc))
	if err != nil {
		t.Fatal(err)
	}
	p.sends(2, "Do")
	if got := p.stored().Total; got != 2 {
		t.Errorf("total is %d", got)
	}
	fault := errors.New("fn's own")
	p.want(l.Do(t.Context(), order, func(context.Context, *doclock.Lease) error { return fault }), fault)
	p.heldBy(nil)
}

func TestClose(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.watched())
	lease := p.try(l)
	if err := l.Close(fixture.Bounded(p)); err != nil {
		t.Fatal(err)
	}
	p.sends(1, "TryAcquire")
	_, err := l.TryAcquire(t.Context(), order)
	p.want(err, doclock.ErrClosed)
	_, err = l.Acquire(t.Context(), order)
	p.want(err, doclock.ErrClosed)
	p.sends(0, "a closed Locker")
	p.release(lease)
	p.heldBy(nil)
}

// A multilock whose table has the tag sees the entries: an application can
// grow from one package to the other.
func TestMultilockSeesTheSameLocks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	simple := p.locker(p.Hand)
	grown, err := multilock.New(p.Hand, relations.WritePreferring())
	if err != nil {
		t.Fatal(err)
	}
	lease := p.try(simple)
	for _, tag := range []string{"read", writelock.Tag} {
		_, err := grown.TryAcquire(t.Context(), order, tag)
		p.want(err, doclock.ErrConflict)
	}
	p.release(lease)
	lease, err = grown.TryAcquire(t.Context(), order, writelock.Tag)
	if err != nil {
		t.Fatal(err)
	}
	p.heldBy(lease)
	_, err = simple.TryAcquire(t.Context(), order)
	p.want(err, doclock.ErrConflict)
	p.release(lease)

	// A reader is of a tag that the write lock doesn't know: nobody is let in
	// beside it.
	lease, err = grown.TryAcquire(t.Context(), order, "read")
	if err != nil {
		t.Fatal(err)
	}
	_, err = simple.TryAcquire(t.Context(), order)
	p.want(err, doclock.ErrConflict)
	p.release(lease)
}

func TestNewRefusesBadInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	for name, bad := range map[string]struct {
		opts []doclock.Option
		says []string
	}{
		"TagTTL":                   {[]doclock.Option{doclock.TagTTL("write", time.Second)}, []string{"TagTTL", "one tag", "TTL"}},
		"TagTTL of an unknown tag": {[]doclock.Option{doclock.TagTTL("read", time.Second)}, []string{"TagTTL", "one tag"}},
		"TagTTL too short":         {[]doclock.Option{doclock.TagTTL("write", 1)}, []string{"TagTTL", "one tag"}},
		"TTL":                      {[]doclock.Option{doclock.TTL(time.Millisecond)}, []string{"TTL", "1s"}},
		"several": {[]doclock.Option{doclock.TTL(1), doclock.TagTTL("write", time.Second), doclock.Owner(""), doclock.Field("_id")},
			[]string{"TTL is 1ns", "one tag", "Owner", "Field"}},
	} {
		l, err := writelock.New(p.Hand, bad.opts...)
		p.want(err, doclock.ErrInvalidArgument)
		if l != nil {
			t.Errorf("%s: there is a Locker", name)
		}
		for _, word := range bad.says {
			if err != nil && !strings.Contains(err.Error(), word) {
				t.Errorf("%s: the error doesn't say %q: %v", name, word, err)
			}
		}
	}
	_, err := writelock.New(nil)
	p.want(err, doclock.ErrInvalidArgument)
}

func TestAcquireRefusesBadInput(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll := p.watched()
	l, upserting := p.locker(coll), p.locker(coll, doclock.Upsert())
	session, err := coll.Database().Client().StartSession()
	if err != nil {
		t.Fatal(err)
	}
	defer session.EndSession(context.Background())
	if err := session.StartTransaction(); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, in := range map[string]struct {
		ctx    context.Context
		l      *writelock.Locker
		filter any
		opts   []doclock.AcquireOption
		is     error
	}{
		"nil filter":          {t.Context(), l, nil, nil, doclock.ErrInvalidArgument},
		"empty filter":        {t.Context(), l, bson.D{}, nil, doclock.ErrInvalidArgument},
		"unpinned upsert":     {t.Context(), upserting, bson.M{"total": 1}, nil, doclock.ErrInvalidArgument},
		"Into nil":            {t.Context(), l, order, []doclock.AcquireOption{doclock.Into(nil)}, doclock.ErrInvalidArgument},
		"running transaction": {mongo.NewSessionContext(t.Context(), session), l, order, nil, doclock.ErrInTransaction},
		"ended context":       {ended, l, order, nil, context.Canceled},
	} {
		_, err := in.l.TryAcquire(in.ctx, in.filter, in.opts...)
		p.want(err, in.is)
		_, err = in.l.Acquire(in.ctx, in.filter, in.opts...)
		p.want(err, in.is)
		p.want(in.l.Do(in.ctx, in.filter, func(context.Context, *doclock.Lease) error {
			t.Errorf("%s: fn was called", name)
			return nil
		}, in.opts...), in.is)
		p.sends(0, name)
	}
	p.heldBy(nil)
}
