package multilock_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// holders are those in the way of an acquire.
func (p *place) holders(l *multilock.Locker, tag string) []doclock.Holder {
	p.Helper()
	return p.conflict(errOf(l.TryAcquire(p.bounded(), flowers, tag))).Holders
}

// keeps fails if a call that must be refused changes the document.
func (p *place) keeps(err func() error, is error) {
	p.Helper()
	before := p.Stored()
	p.want(err(), is, doclock.ErrNotAcquired)
	if after := p.Stored(); !bytes.Equal(before, after) {
		p.Errorf("a refused take-over made %v of %v", after, before)
	}
}

// takesOver demands that a take-over is granted.
func (p *place) takesOver(l *multilock.Locker, tag string, from ...doclock.Holder) doclock.Lease {
	p.Helper()
	return p.try(l, tag, doclock.TakeOver(from...))
}

// mayHaveEnded says that an error names what a take-over may have done.
func mayHaveEnded(err error) bool { return strings.Contains(err.Error(), "may have ended") }

// An entry is named by its fencing token too: what waited and holds by now, what was resumed, and what
// was released, is not ended.
func TestRule24ATakeOverMatchesTheFence(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*place, *multilock.Locker) []doclock.Holder{
		"granted since": func(p *place, l *multilock.Locker) []doclock.Holder {
			reader, ticket := p.try(l, "read"), p.enqueue(l, "write")
			var named []doclock.Holder
			for _, h := range p.holders(l, "read") {
				if h.Waiting {
					named = append(named, h)
				}
			}
			p.release(reader)
			p.got(ticket.Wait(p.bounded()))
			return named
		},
		"resumed since": func(p *place, l *multilock.Locker) []doclock.Holder {
			token, err := p.try(l, "write").Detach(p.bounded())
			must(p, err)
			named := p.holders(l, "read")
			p.got(l.Resume(p.bounded(), flowers, token))
			return named
		},
		"released since": func(p *place, l *multilock.Locker) []doclock.Holder {
			lease := p.try(l, "write")
			named := p.holders(l, "read")
			p.release(lease)
			p.try(l, "write")
			return named
		},
		"another fence": func(p *place, l *multilock.Locker) []doclock.Holder {
			p.try(l, "write")
			named := p.holders(l, "read")
			named[0].Fence++
			return named
		},
	} {
		virtually(t, name, func(p *place) {
			l := p.locker(p.coll, relations.Fair())
			named := change(p, l)
			if len(named) != 1 {
				p.Fatalf("it names %+v", named)
			}
			for _, tag := range []string{"read", "write"} {
				p.keeps(func() error { return errOf(l.TryAcquire(p.bounded(), flowers, tag, doclock.TakeOver(named...))) }, doclock.ErrConflict)
			}
		})
	}
}

// A take-over is granted, or writes nothing. It never waits, whatever call it is given to.
func TestRule24ATakeOverIsGrantedOrWritesNothing(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		one, two := p.try(l, "read"), p.try(l, "read")
		named := p.holders(l, "write")
		for _, ask := range []func(...doclock.AcquireOption) error{
			func(opts ...doclock.AcquireOption) error {
				return errOf(l.TryAcquire(p.bounded(), flowers, "write", opts...))
			},
			func(opts ...doclock.AcquireOption) error {
				return errOf(l.Acquire(p.bounded(), flowers, "write", opts...))
			},
			func(opts ...doclock.AcquireOption) error {
				return l.Do(p.bounded(), flowers, "write", func(context.Context, doclock.Lease) error { return nil }, opts...)
			},
		} {
			p.keeps(func() error { return ask(doclock.TakeOver(named[0])) }, doclock.ErrConflict)
			p.keeps(func() error { return ask(doclock.TakeOver()) }, doclock.ErrConflict)
		}
		ok(p, one.Renew(p.bounded()))
		lease := p.takesOver(l, "write", named...)
		p.want(one.Release(p.bounded()), doclock.ErrLost)
		p.want(two.Release(p.bounded()), doclock.ErrLost)
		p.release(lease)
		p.release(p.takesOver(l, "write")) // nobody is in the way
	})
}

// In the place of a live held entry the lock passes by those that wait. In that of an expired one, or
// of one that waits itself, it doesn't.
func TestRule24ATakeOverPassesThoseThatWait(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Fair())
		p.try(l, "write")
		named := p.holders(l, "write")
		first, second := p.enqueue(l, "write"), p.enqueue(l, "write")
		last := p.holders(l, "write")[2:]
		p.keeps(func() error { return errOf(l.TryAcquire(p.bounded(), flowers, "write", doclock.TakeOver(last...))) }, doclock.ErrConflict)
		p.takesOver(l, "write", named...)
		var held []doclock.Holder
		for _, h := range p.holders(l, "write") {
			if !h.Waiting {
				held = append(held, h)
			}
		}
		for range 3 {
			time.Sleep(10 * time.Second / 3)
			for _, ticket := range []*multilock.Ticket{first, second} {
				p.conflict(errOf(ticket.Confirm(p.bounded())))
			}
		}
		time.Sleep(time.Second) // it has expired, and the tickets wait on
		p.keeps(func() error { return errOf(l.TryAcquire(p.bounded(), flowers, "write", doclock.TakeOver(held...))) }, doclock.ErrConflict)
		p.release(p.got(first.Wait(p.bounded())))
		p.release(p.got(second.Wait(p.bounded())))
	})
}

// The former holder's release finds nothing after its request was lost. It may not say that nobody was
// let in.
func TestRule24ATakeOverLeavesTheFence(t *testing.T) {
	t.Parallel()
	lately(t, relations.Exclusive(), func(l *pair) {
		old := l.try(l.here, "write")
		lost := l.net.Arm(faultnet.LoseRequest, "findAndModify")
		released := begin(l, func() (struct{}, error) { return struct{}{}, old.Release(l.bounded()) })
		<-lost.Fired()
		l.takesOver(l.there, "write", doclock.Holder{ID: old.ID(), Fence: old.Fence()})
		_, err := released.wait()
		l.want(err, doclock.ErrOutcomeUnknown)
		if n := l.broken(); n != old.Fence() {
			l.Errorf("broken is %d, want %d", n, old.Fence())
		}
	})
}

// broken is the greatest fencing token of what was broken or taken over.
func (p *place) broken() int64 {
	p.Helper()
	n, _ := p.Stored().Lookup("lock", "broken").AsInt64OK()
	return n
}

// The reply of a take-over is lost: it is repeated by its id, and granted once. A late duplicate of its
// request finds nothing to end, and leaves no entry.
func TestATakeOverIsRepeated(t *testing.T) {
	t.Parallel()
	for _, fault := range []faultnet.Kind{faultnet.LoseReply, faultnet.LoseRequest, faultnet.Hold} {
		for _, next := range []bool{false, true} {
			lately(t, relations.Exclusive(), func(l *pair) {
				old := l.try(l.there, "write")
				from := doclock.Holder{ID: old.ID(), Fence: old.Fence()}
				held := l.net.Arm(fault, "findAndModify")
				lease := l.takesOver(l.here, "write", from)
				l.wantEntries(lease)
				l.want(old.Release(l.bounded()), doclock.ErrLost)
				l.release(lease)
				var others []doclock.Lease
				if next {
					others = append(others, l.try(l.there, "write"))
				}
				if fault == faultnet.Hold {
					must(l, held.Let())
				}
				l.removed(others...)
				if next {
					ok(l, others[0].Renew(l.bounded()))
				}
			})
		}
	}
}

// A take-over was refused, or its caller has left, while an attempt of it had no answer: the error says
// that it may have ended what it names, and what it makes is removed. One that was answered says nothing.
func TestRule24AFailedTakeOverMayHaveEndedWhatItNames(t *testing.T) {
	t.Parallel()
	for name, refused := range map[string]bool{"refused": true, "given up": false} {
		t.Run(name, func(t *testing.T) {
			lately(t, relations.ReadPreferring(), func(l *pair) {
				one, two := l.try(l.there, "read"), l.try(l.there, "read")
				from := doclock.TakeOver(doclock.Holder{ID: one.ID(), Fence: one.Fence()})
				if err := errOf(l.here.TryAcquire(l.bounded(), flowers, "write", from)); mayHaveEnded(err) {
					l.Errorf("after a refusal: %v", err)
				}
				kind := faultnet.DelayReply
				if refused {
					kind = faultnet.Hold
				} else {
					l.release(two)
				}
				held := l.net.Arm(kind, "findAndModify")
				ctx, cancel := context.WithCancel(l.Context())
				defer cancel()
				call := begin(l, func() (struct{}, error) { return struct{}{}, errOf(l.here.TryAcquire(ctx, flowers, "write", from)) })
				<-held.Fired()
				if !refused {
					cancel()
				}
				_, err := call.wait()
				l.want(err, doclock.ErrNotAcquired)
				if !mayHaveEnded(err) || errors.Is(err, doclock.ErrConflict) != refused {
					l.Errorf("%v", err)
				}
				if refused {
					l.release(two)
				}
				must(l, held.Let())
				l.want(one.Renew(l.bounded()), doclock.ErrLost)
				l.removed()
			})
		})
	}
}

// A take-over shares no lease, also not the one that it ends.
func TestATakeOverOfASharedLease(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Fair(), doclock.ShareInProcess("read"))
		shared := p.try(l, "read")
		lease := p.takesOver(l, "read", doclock.Holder{ID: shared.ID(), Fence: shared.Fence()})
		if p.wantEntries(lease); lease.ID() == shared.ID() {
			p.Error("it has joined what it was to end")
		}
		p.want(shared.Update(p.bounded(), plusOne), doclock.ErrLost)
		p.release(lease)
	})
}

// A take-over whose document can't be decoded says that it has ended what it names.
func TestATakeOverThatCantBeDecoded(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive())
		old := p.try(l, "write")
		var odd struct{ Name int }
		err := errOf(l.TryAcquire(p.bounded(), flowers, "write", doclock.Into(&odd), doclock.TakeOver(p.holders(l, "write")...)))
		if p.want(err, doclock.ErrNotAcquired); !mayHaveEnded(err) {
			p.Errorf("%v", err)
		}
		p.want(old.Release(p.bounded()), doclock.ErrLost)
	})
}

// Through another router, with a filter that pins the shard key or one that doesn't, a take-over
// ends what it names on the shard.
func TestATakeOverThroughARouter(t *testing.T) {
	sharded(t, 200*time.Millisecond, func(p *place, slow, fast *mongo.Collection, _ *atomic.Int32) {
		key := doclock.ShardKey("region")
		one, two := p.locker(slow, relations.Fair(), key), p.locker(fast, relations.Fair(), key)
		old := p.got(one.TryAcquire(p.bounded(), northern, "write"))
		for _, filter := range []bson.D{northern, {{Key: "region", Value: "north"}}} {
			from := p.conflict(errOf(two.TryAcquire(p.bounded(), filter, "write"))).Holders
			lease := p.got(two.TryAcquire(p.bounded(), filter, "write", doclock.TakeOver(from...)))
			p.want(old.Update(p.bounded(), plusOne), doclock.ErrLost)
			ok(t, lease.Update(p.bounded(), plusOne))
			old = lease
		}
		p.release(old)
	})
}
