package writelock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
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

// A multilock whose table has the tag sees the entries: an application can
// grow from one package to the other.
func TestMultilockSeesTheSameLocks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	simple := p.locker(p.Hand)
	grown, err := multilock.New(p.Hand, relations.WritePreferring(), doclock.TTL(calm), doclock.WaitTTL(calm))
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
		"TagTTL of an unknown tag": {[]doclock.Option{doclock.TagTTL("read", time.Second)}, []string{"TagTTL", "tags: write"}},
		"TTL":                      {[]doclock.Option{doclock.TTL(time.Millisecond)}, []string{"TTL", "1s"}},
		"several": {[]doclock.Option{doclock.TTL(1), doclock.TagTTL("read", time.Second), doclock.Owner(""), doclock.Field("_id")},
			[]string{"TTL is 1ns", "TagTTL", "Owner", "Field"}},
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
