package writelock_test

import (
	"strings"
	"testing"
	"time"

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
