package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The same increment as a classic update and as a pipeline.
var (
	inc  = bson.M{"$inc": bson.M{"total": 1}}
	incs = bson.A{bson.M{"$set": bson.M{"total": bson.M{"$add": bson.A{"$total", 1}}}}}
)

// kindsPlay is a call with what it needs.
type kindsPlay struct {
	*testing.T
	coll   *mongo.Collection
	locks  *multilock.Locker // whose waiters leave no entry
	fair   *multilock.Locker
	lease  doclock.Lease
	ticket *multilock.Ticket
	token  string
}

// calls have one command each, of these kinds; an operator's removal reads first.
var calls = map[string]struct {
	kinds   locktest.Kind
	prepare func(*kindsPlay) error
	call    func(*kindsPlay) error
}{
	"acquire":                  {locktest.Acquires, nil, func(p *kindsPlay) error { return p.try(2) }},
	"acquire, into":            {locktest.Acquires, nil, func(p *kindsPlay) error { return p.try(2, doclock.Into(new(bson.Raw))) }},
	"claim":                    {locktest.Acquires, nil, (*kindsPlay).claim},
	"enqueue":                  {locktest.Acquires, nil, (*kindsPlay).enqueue},
	"confirm":                  {locktest.Acquires, (*kindsPlay).enqueue, func(p *kindsPlay) error { _, err := p.ticket.Confirm(ctx); return err }},
	"cancel":                   {locktest.CleanUps, (*kindsPlay).enqueue, func(p *kindsPlay) error { return p.ticket.Cancel(ctx) }},
	"convert":                  {locktest.Acquires, nil, func(p *kindsPlay) error { _, err := p.lease.Convert(ctx, "read"); return err }},
	"detach":                   {locktest.Releases, nil, (*kindsPlay).detach},
	"resume":                   {locktest.Acquires, (*kindsPlay).detach, func(p *kindsPlay) error { _, err := p.locks.Resume(ctx, doclock.ID(1), p.token); return err }},
	"touch":                    {locktest.Renewals, (*kindsPlay).detach, func(p *kindsPlay) error { return p.locks.Touch(ctx, doclock.ID(1), p.token) }},
	"renew":                    {locktest.Renewals, nil, func(p *kindsPlay) error { return p.lease.Renew(ctx) }},
	"update":                   {locktest.Writes, nil, func(p *kindsPlay) error { return p.lease.Update(ctx, inc) }},
	"update, a pipeline":       {locktest.Writes, nil, func(p *kindsPlay) error { return p.lease.Update(ctx, incs) }},
	"guard":                    {locktest.Writes, nil, func(p *kindsPlay) error { _, err := p.coll.UpdateOne(ctx, p.lease.Guard(), inc); return err }},
	"guard, within a filter":   {locktest.Writes, nil, (*kindsPlay).guardWithin},
	"last update":              {locktest.Writes | locktest.Releases, nil, (*kindsPlay).last},
	"last update, a remainder": {locktest.Writes | locktest.Releases, (*kindsPlay).least, func(p *kindsPlay) error { return p.lease.UpdateAndRelease(ctx, incs) }},
	"last update, a handoff":   {locktest.Writes | locktest.Releases, (*kindsPlay).wait, (*kindsPlay).last},
	"last update, a pipeline":  {locktest.Writes | locktest.Releases, nil, func(p *kindsPlay) error { return p.lease.UpdateAndRelease(ctx, incs) }},
	"delete":                   {locktest.Writes | locktest.Releases, nil, func(p *kindsPlay) error { return p.lease.Delete(ctx) }},
	"release":                  {locktest.Releases, nil, (*kindsPlay).release},
	"release, a remainder":     {locktest.Releases, (*kindsPlay).least, (*kindsPlay).release},
	"release, a handoff":       {locktest.Releases, (*kindsPlay).wait, (*kindsPlay).release},
	"an operator's removal": {locktest.CleanUps | locktest.Others, nil, func(p *kindsPlay) error {
		_, err := admin.Remove(ctx, p.coll, admin.Query{Tags: []string{"write"}})
		return err
	}},
	"an insert":               {locktest.Others, nil, func(p *kindsPlay) error { _, err := p.coll.InsertOne(ctx, bson.M{}); return err }},
	"a read":                  {locktest.Others, nil, func(p *kindsPlay) error { return p.coll.FindOne(ctx, order).Err() }},
	"a pipeline of one's own": {locktest.Others, nil, func(p *kindsPlay) error { _, err := p.coll.UpdateOne(ctx, order, incs); return err }},
}

func (p *kindsPlay) locker(rules relations.Rules) *multilock.Locker {
	locks, err := multilock.New(p.coll, rules)
	check(p.T, err)
	p.Cleanup(func() { check(p.T, fixture.Rested(locks.Close(ctx))) })
	return locks
}

func (p *kindsPlay) release() error { return p.lease.Release(ctx) }
func (p *kindsPlay) last() error    { return p.lease.UpdateAndRelease(ctx, inc) }

func (p *kindsPlay) try(id int, opts ...doclock.AcquireOption) (err error) {
	p.lease, err = p.locks.TryAcquire(ctx, bson.M{"_id": id}, "write", opts...)
	return err
}

// claim finds the first document locked.
func (p *kindsPlay) claim() error {
	_, err := p.fair.TryAcquire(ctx, bson.M{"_id": bson.M{"$gt": 0}}, "write", doclock.SkipLocked())
	return err
}

func (p *kindsPlay) least() error { return p.try(2, doclock.HoldAtLeast(time.Minute)) }

func (p *kindsPlay) enqueue() (err error) {
	p.ticket, err = p.fair.Enqueue(ctx, order, "write")
	return err
}

func (p *kindsPlay) detach() (err error) {
	p.token, err = p.lease.Detach(ctx)
	return err
}

func (p *kindsPlay) guardWithin() error {
	_, err := p.coll.UpdateOne(ctx, bson.M{"$and": bson.A{bson.M{"total": 0}, p.lease.Guard()}}, incs)
	return err
}

// wait has a goroutine of the same Locker wait for the lock.
func (p *kindsPlay) wait() error {
	var waiter sync.WaitGroup
	waiter.Go(func() {
		if lease, err := p.locks.Acquire(ctx, order, "write"); err == nil {
			check(p.T, lease.Release(ctx))
		}
	})
	p.Cleanup(waiter.Wait)
	synctest.Wait()
	return nil
}

// An order is met by a command exactly if it is of one of the order's kinds.
func TestKinds(t *testing.T) {
	for name, c := range calls {
		for kind := locktest.Acquires; kind <= locktest.Others; kind <<= 1 {
			t.Run(fmt.Sprintf("%s/%b", name, kind), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					mem, refused := locktest.New(t), 0
					client := mem.Connect(options.Client().SetMonitor(&event.CommandMonitor{
						Failed: func(context.Context, *event.CommandFailedEvent) { refused++ },
					}))
					p := &kindsPlay{T: t, coll: client.Database("test").Collection("orders")}
					_, err := p.coll.InsertMany(ctx, []any{bson.M{"_id": 1, "total": 0}, bson.M{"_id": 2}})
					check(t, err)
					p.locks, p.fair = p.locker(relations.ReadPreferring()), p.locker(relations.Fair())
					check(t, p.try(1))
					if c.prepare != nil {
						check(t, c.prepare(p))
					}
					mem.Fail(1, mongo.CommandError{Code: 13, Message: "not authorized"}, kind, kind)
					err = c.call(p)
					mem.Fail(0, mongo.CommandError{})
					if met, want := refused > 0, c.kinds&kind != 0; met != want {
						t.Errorf("the order is met: %v; want %v; %v", met, want, err)
					}
				})
			})
		}
	}
}

// A fault that is meant for a release passes over what the background sends before
// it: a batch of renewals, and the clean-up of an acquire.
func TestFaultsPassOverTheBackground(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newScene(t)
		_, err := s.orders.InsertOne(ctx, bson.M{"_id": 2})
		check(t, err)
		first := acquired(t, s.mine)
		second, err := s.mine.TryAcquire(ctx, bson.M{"_id": 2})
		check(t, err)
		work := first.KeepAlive(ctx)
		second.KeepAlive(ctx)
		s.Delay(1, 3*time.Second, locktest.Acquires)
		s.Fail(1, mongo.CommandError{Code: 13}, locktest.Releases)
		gone, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		if _, err := s.others.TryAcquire(gone, order); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a late acquire: %v", err)
		}
		time.Sleep(time.Minute)
		check(t, work.Err())
		var met mongo.CommandError
		if err := first.Release(ctx); !errors.As(err, &met) {
			t.Errorf("the release was not refused: %v", err)
		}
		check(t, second.Release(ctx))
	})
}
