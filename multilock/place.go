package multilock

import (
	"errors"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/doclock/doclock/internal/waitqueue"
)

// place is an acquire's entry in the document, granted or waiting.
type place struct {
	a      *acquisition
	grant  engine.Grant // of the arrival; it never changes
	unsure unsure       // attempts of the arrival
}

// arrived is the place of an entry that an image shows.
func (a *acquisition) arrived(img *engine.Image) *place {
	return &place{a: a, grant: a.locker.engine.Grant(img, a.request.Request), unsure: a.unsure}
}

// judge applies an answer to the place: it is granted as a lease, a conflict, or
// [doclock.ErrLost]. A lost place leaves no entry.
func (p *place) judge(got engine.Answer) (*lease.Handle, error) {
	if got.Outcome == engine.Lost {
		return nil, p.lost(false)
	}
	own, _ := got.Image.Lock.Find(p.grant.Tag, p.grant.ID)
	if own.Seq != p.grant.Seq { // pruned, and entered anew by a late duplicate
		return nil, p.lost(true)
	}
	if got.Outcome == engine.Waiting {
		return nil, p.a.conflict(got.Image, &own)
	}
	granted := p.a.locker.engine.Grant(got.Image, engine.Request{Tag: p.grant.Tag, ID: p.grant.ID, Terms: p.a.request.Terms})
	return p.a.hold(granted, got.Sent, p.unsure), nil
}

func (p *place) lost(seen bool) error {
	p.a.discard(p.grant.Pin, p.grant.ID, p.unsure, seen, nil)
	return doclock.ErrLost
}

// withdraw removes the entry from the document, whether or not it has a lease,
// and then calls done.
func (p *place) withdraw(held *lease.Handle, done func(error)) {
	if held != nil {
		p.a.locker.release(held, done)
		return
	}
	leave := p.a.locker.inflight.owe(p.a.lane)
	p.a.discard(p.grant.Pin, p.grant.ID, p.unsure, true, func(err error) {
		leave()
		done(err)
	})
}

// abandoned removes the waiter's entry from the document, granted or not, after
// the end of a confirm whose caller has left.
func (p *place) abandoned(got reply, done func()) {
	var held *lease.Handle
	if got.err == nil {
		var err error
		if held, err = p.judge(got.Answer); errors.Is(err, doclock.ErrLost) {
			p.a.end(done)
			return
		}
	}
	p.withdraw(held, func(error) { p.a.end(done) })
}

// queued is the place as the wait queue knows it.
func (p *place) queued() waitqueue.Place {
	return waitqueue.Place{Seq: p.grant.Seq, Confirm: p.keeps()}
}

// keeps is the longest pause between two confirms that keeps the place.
func (p *place) keeps() time.Duration { return p.a.locker.engine.Wait(p.grant.Tag) / 3 }
