package multilock_test

import (
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/relations"
)

// If the document can't be decoded, the entry stays for the next resume.
func TestResumeIntoWhatDoesNotFit(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	var wrong struct{ Name int }
	lease, err := l.Resume(t.Context(), token, doclock.Into(&wrong))
	p.want(err, doclock.ErrNotAcquired)
	if lease != nil {
		t.Error("a lease beside an error")
	}
	if e := p.entries("write"); len(e) != 1 || !e[0].Detached {
		t.Errorf("the entry is %+v", e)
	}
	p.release(p.resume(l, token))
	p.wantEntries() // no remainder for a lease that nobody got
}

// A panic of the caller's decoding leaves the entry for the next resume, too.
func TestResumeIntoThatPanics(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	token := p.detach(p.try(l, "write"))
	func() {
		defer func() { _ = recover() }()
		_, _ = l.Resume(p.bounded(), token, doclock.Into(&panicking{}))
		t.Error("it has not panicked")
	}()
	p.release(p.resume(l, token))
	p.wantEntries()
}
