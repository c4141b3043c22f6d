package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A lost lock, whatever call tells it, names its document and the reason.

const lostTTL = 12 * time.Second

// loss is how a lock is lost.
type loss struct {
	reason doclock.LossReason
	after  time.Duration // by time: how long after the grant
	kept   bool          // the lease is kept alive
	stands bool          // the entry is still there: a command that finds it succeeds
	others bool          // somebody has the lock instead
	opts   []doclock.AcquireOption
	lose   func(*robbed)
}

var waysToLose = map[string]loss{
	"its time, and nobody came": {reason: doclock.LossNotRenewed, after: lostTTL, stands: true, lose: func(r *robbed) { time.Sleep(lostTTL) }},
	"its time, and others came": {reason: doclock.LossNotRenewed, after: lostTTL, others: true, lose: func(r *robbed) { time.Sleep(2 * lostTTL) }},
	"its time, without renewals": {reason: doclock.LossExpired, after: lostTTL, stands: true, kept: true, lose: func(r *robbed) {
		r.mem.Fail(1<<20, mongo.CommandError{Code: 13, Message: "not authorized"}, locktest.Renewals)
		time.Sleep(lostTTL)
	}},
	"HoldAtMost": {reason: doclock.LossHeldAtMost, after: 5 * time.Second, stands: true, kept: true,
		opts: []doclock.AcquireOption{doclock.HoldAtMost(5 * time.Second)}, lose: func(r *robbed) { time.Sleep(5 * time.Second) }},
	"an operator": {reason: doclock.LossEntryRemoved, kept: true, lose: func(r *robbed) {
		r.Change(bson.M{"$unset": bson.M{"lock": 1}})
	}},
	"an operator, and others came": {reason: doclock.LossEntryRemoved, kept: true, others: true, lose: func(r *robbed) {
		r.Change(bson.M{"$unset": bson.M{"lock": 1}})
	}},
	"the document": {reason: doclock.LossDocumentDeleted, kept: true, lose: func(r *robbed) { r.Delete() }},
}

// robbed is ann's lease, which is lost on the way.
type robbed struct {
	*place
	loss
	locks  *multilock.Locker
	begun  time.Time
	events chan doclock.Event
}

// acquire takes the lock by which a call begins.
func (r *robbed) acquire(tag string) doclock.Lease {
	r.Helper()
	l, err := r.locks.Acquire(r.Context(), flowers, tag, r.opts...)
	must(r, err)
	if r.kept {
		l.KeepAlive(r.Context())
	}
	return l
}

// away loses the lock. The call goes on before any renewal.
func (r *robbed) away() {
	r.Helper()
	r.lose(r)
	if r.others {
		bob := r.plain(relations.WritePreferring(), doclock.Owner("bob"), doclock.TTL(time.Hour))
		must(r, errOf(bob.TryAcquire(r.Context(), flowers, "write")))
	}
}

// tell is a call that tells a loss. One that asks sends a command for a lease that is not
// known to be lost, whatever its time is.
type tell struct {
	keeps, asks, shares bool
	do                  func(r *robbed) error
}

func tells() map[string]tell {
	all := map[string]tell{
		"Update, of one of two": {asks: true, shares: true, do: func(r *robbed) error {
			l, _ := r.acquire("read"), r.acquire("read")
			r.away()
			return l.Update(r.Context(), plusOne)
		}},
		"Release, after that of the other": {shares: true, do: func(r *robbed) error {
			l, other := r.acquire("read"), r.acquire("read")
			r.away()
			_ = other.Release(r.Context())
			return l.Release(r.Context())
		}},
		"KeepAlive": {keeps: true, do: func(r *robbed) error {
			kept := r.acquire("write").KeepAlive(r.Context())
			r.away()
			<-kept.Done()
			return context.Cause(kept)
		}},
		"a batch": {keeps: true, do: func(r *robbed) error {
			must(r, errOf(r.coll.InsertOne(r.Context(), doclock.ID(2))))
			other, err := r.locks.Acquire(r.Context(), doclock.ID(2), "write")
			must(r, err)
			other.KeepAlive(r.Context())
			kept := r.acquire("write").KeepAlive(r.Context())
			r.away()
			<-kept.Done()
			return context.Cause(kept)
		}},
		"Do": {keeps: true, asks: true, do: func(r *robbed) error {
			return r.locks.Do(r.Context(), flowers, "write", func(context.Context, doclock.Lease) error { r.away(); return nil }, r.opts...)
		}},
		"Do, whose context has ended": {asks: true, do: func(r *robbed) error {
			ctx, end := context.WithCancel(r.Context())
			return r.locks.Do(ctx, flowers, "write", func(context.Context, doclock.Lease) error { end(); r.away(); return nil }, r.opts...)
		}},
		"a function's context": {keeps: true, do: func(r *robbed) (err error) {
			_ = r.locks.Do(r.Context(), flowers, "write", func(ctx context.Context, _ doclock.Lease) error {
				r.away()
				<-ctx.Done()
				err = context.Cause(ctx)
				return nil
			}, r.opts...)
			return err
		}},
		"DoAll": {keeps: true, asks: true, do: func(r *robbed) error {
			fn := func(context.Context, multilock.Leases) error { r.away(); return nil }
			return multilock.DoAll(r.Context(), fn, r.locks.Want(flowers, "write", r.opts...))
		}},
		"an event": {keeps: true, do: func(r *robbed) error {
			_ = r.acquire("write")
			r.away()
			for e := range r.events {
				if e.Kind == doclock.EventLost {
					return e.Err
				}
			}
			return nil
		}},
	}
	for name, call := range leaseCalls {
		all[name] = tell{asks: name != "Renew", do: func(r *robbed) error {
			l := r.acquire("write")
			r.away()
			err := call(l, r.Context())
			if errors.Is(err, doclock.ErrInvalidArgument) { // a Detach with HoldAtMost
				return nil
			}
			return err
		}}
	}
	return all
}

func TestALossNamesItsLockAndTheReason(t *testing.T) {
	t.Parallel()
	for how, way := range waysToLose {
		for call, tell := range tells() {
			if tell.keeps && !way.kept || tell.shares && way.opts != nil {
				continue
			}
			t.Run(how+"/"+call, func(t *testing.T) {
				onCluster(t, func(p *place) {
					r := &robbed{place: p, loss: way, begun: time.Now(), events: make(chan doclock.Event, 100)}
					r.locks = p.ours(doclock.TTL(lostTTL), doclock.Owner("ann"), doclock.ShareInProcess("read"),
						doclock.OnEvent(func(_ context.Context, e doclock.Event) { r.events <- e }))
					defer time.AfterFunc(time.Hour, func() { p.mem.Down(errAway) }).Stop() // a lease that goes on is lost for another reason
					err := tell.do(r)
					refused := call == "Convert" && way.reason == doclock.LossHeldAtMost // nothing may go on
					if way.stands && tell.asks && !refused {
						ok(t, err)
						return
					}
					r.wantLost(err, tell.asks || way.after == 0)
				})
			})
		}
	}
}

// wantLost fails unless err has all that is known of the loss.
func (r *robbed) wantLost(err error, asked bool) {
	r.Helper()
	var lost *doclock.LostError
	if !errors.As(err, &lost) || !errors.Is(err, doclock.ErrLost) {
		r.Fatalf("it is %v", err)
	}
	if lost.Collection != "test.documents" || lost.DocumentID.AsInt64() != 1 || lost.Owner != "ann" || lost.Reason != r.reason {
		r.Errorf("it is %+v", lost)
	}
	since := r.begun.Add(r.after - time.Millisecond)
	if late := lost.Since.Sub(since); r.after > 0 && late > 5*time.Millisecond || late < 0 || lost.Since.After(time.Now()) {
		r.Errorf("since %v after the end", late)
	}
	if shown := len(lost.Holders) == 1 && lost.Holders[0].Owner == "bob" && lost.Holders[0].Tag == "write" && !lost.Holders[0].InProcess; shown != (r.others && asked) {
		r.Errorf("the holders are %+v", lost.Holders)
	}
	for _, want := range []string{fmt.Sprintf("%q on document 1 of test.documents", lost.Tag), map[doclock.LossReason]string{
		doclock.LossNotRenewed:      "nothing renewed it: Do and KeepAlive do, until their context ends",
		doclock.LossExpired:         "before a renewal was answered",
		doclock.LossHeldAtMost:      "HoldAtMost",
		doclock.LossEntryRemoved:    "entry is gone",
		doclock.LossDocumentDeleted: "the document is gone",
	}[r.reason]} {
		if strings.Count(err.Error(), want) != 1 {
			r.Errorf("%v says %q %d times", err, want, strings.Count(err.Error(), want))
		}
	}
}

// A lost lease may see its own id in the document: a repeat of its acquire came late, and was granted anew. That is
// nobody who has the lock instead. The call that learns it returns.
func TestALossBesideItsOwnID(t *testing.T) {
	t.Parallel()
	onCluster(t, func(r *place) {
		lease, err := r.ours().TryAcquire(r.Context(), flowers, "write")
		must(r, err)
		must(r, errOf(r.coll.UpdateByID(r.Context(), 1, bson.M{"$inc": bson.M{"lock.tags.write.0.fence": 1}})))
		var lost *doclock.LostError
		if err := lease.Update(r.Context(), plusOne); !errors.As(err, &lost) || len(lost.Holders) != 0 {
			r.Errorf("got %v", err)
		}
	})
}

// All errors of a lease name it once, whatever they are.
func TestErrorsOfALeaseNameIt(t *testing.T) {
	t.Parallel()
	ended, end := context.WithCancel(context.Background())
	end()
	for when, begin := range map[string]func(*place, context.Context, doclock.Lease) context.Context{
		"after the release": func(r *place, ctx context.Context, l doclock.Lease) context.Context {
			must(r, l.Release(ctx))
			return ctx
		},
		"at the end of ctx": func(_ *place, _ context.Context, _ doclock.Lease) context.Context { return ended },
		"refused": func(r *place, ctx context.Context, _ doclock.Lease) context.Context {
			r.mem.Fail(1<<20, mongo.CommandError{Code: 13, Message: "not authorized"}, locktest.Renewals, locktest.Writes, locktest.Releases, locktest.Acquires)
			return ctx
		},
		"not answered": func(r *place, ctx context.Context, _ doclock.Lease) context.Context {
			r.mem.LoseRequests(1<<20, locktest.Renewals, locktest.Writes, locktest.Releases, locktest.Acquires)
			return ctx
		},
	} {
		for name, call := range leaseCalls {
			t.Run(when+"/"+name, func(t *testing.T) {
				onCluster(t, func(r *place) {
					lease, err := r.ours().Acquire(r.Context(), flowers, "write")
					must(r, err)
					kept := lease.KeepAlive(r.Context())
					err = call(lease, begin(r, r.Context(), lease))
					if err == nil && name[:7] == "Release" { // nobody was let in
						err = lease.Renew(r.Context())
					}
					for _, err := range []error{err, context.Cause(kept), lease.Err()} {
						if err != nil && strings.Count(err.Error(), `"write" on document 1 of test.documents`) != 1 {
							t.Errorf("%v", err)
						}
					}
					if err == nil {
						t.Error("there is no error")
					}
					r.mem.Fail(0, mongo.CommandError{})
					r.mem.LoseRequests(0)
				})
			})
		}
	}
}
