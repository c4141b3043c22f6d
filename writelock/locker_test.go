package writelock_test

import (
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
)

// A multilock whose table has the tag sees the entries: an application can
// grow from one package to the other.
func TestMultilockSeesTheSameLocks(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	simple := p.locker(p.Hand)
	grown, err := multilock.New(p.Hand, relations.WritePreferring(), doclock.TTL(calm), waitTTL(calm))
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
