package multilock_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// spy is a value of the caller's that notes where it is encoded.
type spy struct {
	value     any // it is encoded as this
	caller    string
	times     atomic.Int32
	elsewhere atomic.Int32 // in another goroutine
}

func newSpy(value any) *spy { return &spy{value: value, caller: goroutine()} }

func (s *spy) MarshalBSONValue() (byte, []byte, error) {
	s.times.Add(1)
	if goroutine() != s.caller {
		s.elsewhere.Add(1)
	}
	kind, data, err := bson.MarshalValue(s.value)
	return byte(kind), data, err
}

// goroutine is the name of the goroutine that calls it.
func goroutine() string {
	stack := make([]byte, 64)
	name, _, _ := bytes.Cut(stack[:runtime.Stack(stack, false)], []byte(" ["))
	return string(name)
}

// calls are the methods that take a caller's filter.
var calls = map[string]func(ctx context.Context, l *multilock.Locker, filter any) (*doclock.Lease, error){
	"TryAcquire": func(ctx context.Context, l *multilock.Locker, filter any) (*doclock.Lease, error) {
		return l.TryAcquire(ctx, filter, "write")
	},
	"Acquire": func(ctx context.Context, l *multilock.Locker, filter any) (*doclock.Lease, error) {
		return l.Acquire(ctx, filter, "write")
	},
	"Enqueue": func(ctx context.Context, l *multilock.Locker, filter any) (*doclock.Lease, error) {
		ticket, err := l.Enqueue(ctx, filter, "write")
		if err != nil {
			return nil, err
		}
		return ticket.Confirm(ctx)
	},
	"Do": func(ctx context.Context, l *multilock.Locker, filter any) (*doclock.Lease, error) {
		return nil, l.Do(ctx, filter, "write", func(context.Context, *doclock.Lease) error { return nil })
	},
}

// writes are the methods that take a caller's update.
var writes = map[string]func(ctx context.Context, l *doclock.Lease, update any, opts ...options.Lister[options.UpdateOneOptions]) error{
	"Update": func(ctx context.Context, l *doclock.Lease, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
		return l.Update(ctx, update, opts...)
	},
	"UpdateAndRelease": func(ctx context.Context, l *doclock.Lease, update any, opts ...options.Lister[options.UpdateOneOptions]) error {
		return l.UpdateAndRelease(ctx, update, opts...)
	},
}

// given is an update with its options that contains v.
type given struct {
	update any
	opts   *options.UpdateOneOptionsBuilder
}

func (g given) to(ctx context.Context, l *doclock.Lease, write func(context.Context, *doclock.Lease, any, ...options.Lister[options.UpdateOneOptions]) error) error {
	if g.opts == nil {
		return write(ctx, l, g.update)
	}
	return write(ctx, l, g.update, g.opts)
}

func placesOf(v any) map[string]given {
	one := bson.M{"$inc": bson.M{"total": 1}}
	return map[string]given{
		"the operator's field": {bson.M{"$set": bson.M{"x": v}}, nil},
		"a struct's field":     {bson.M{"$set": struct{ X any }{v}}, nil},
		"beside the library's": {bson.M{"$max": bson.M{"x": v}, "$push": bson.M{"log": v}}, nil},
		"the pipeline":         {bson.A{bson.M{"$set": bson.M{"x": v}}}, nil},
		"the array filter":     {bson.M{"$set": bson.M{"items.$[i]": 1}}, options.UpdateOne().SetArrayFilters([]any{bson.M{"i": v}})},
		"the comment":          {one, options.UpdateOne().SetComment(bson.M{"x": v})},
		"the variables":        {bson.A{bson.M{"$set": bson.M{"x": "$$v"}}}, options.UpdateOne().SetLet(bson.M{"v": v})},
	}
}

// A caller's value is encoded once for each call, by the caller, even if the
// command is sent several times.
func TestValuesAreEncodedOnceAndByTheirCaller(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.change(bson.M{"$set": bson.M{"items": bson.A{7}}})
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive())
	check := func(name string, times int32, s *spy) {
		t.Helper()
		if got := s.times.Load(); got != times || s.elsewhere.Load() != 0 {
			t.Errorf("%s: encoded %d times, %d of them in another goroutine", name, got, s.elsewhere.Load())
		}
	}
	for name, call := range calls {
		for _, by := range []string{"_id", "total"} {
			s := newSpy(1)
			filter := bson.M{by: s}
			if by == "_id" { // which is sent again
				net.Arm(faultnet.LoseReply, "findAndModify")
			}
			lease, err := call(p.bounded(), l, filter)
			if err != nil {
				t.Fatal(name, by, err)
			}
			if lease != nil {
				p.release(lease)
			}
			check(name+" by "+by, 1, s)
		}
	}
	for name, write := range writes {
		s := newSpy(7)
		for place, g := range placesOf(s) {
			lease := p.try(l, "write")
			s.times.Store(0)
			net.Arm(faultnet.LoseReply, "findAndModify")
			if err := g.to(p.bounded(), lease, write); err != nil {
				t.Fatal(name, place, err)
			}
			times := int32(1)
			if place == "beside the library's" {
				times = 2 // it is there twice
			}
			check(name+", "+place, times, s)
			_ = lease.Release(p.bounded())
		}
	}
	p.wantEntries()
}

// A waiter's filter is encoded once, however often the waiter asks and whichever
// command removes its entry.
func TestAWaitersFilterIsEncodedOnce(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"_id", "total"} {
		p := newPlace(t)
		coll, w := p.watched()
		l := p.locker(coll, relations.Fair())
		holder := p.try(p.locker(p.coll, relations.Fair()), "write")
		ctx, cancel := context.WithCancel(t.Context())
		var s *spy
		call := begin(t, func() (*doclock.Lease, error) {
			s = newSpy(1)
			return l.Acquire(ctx, bson.M{by: s}, "write")
		})
		p.eventually("it has asked twice", func() bool { return w.count() > 1 })
		cancel()
		_, err := call.wait()
		p.want(err, context.Canceled)
		p.rest(l)
		p.wantEntries(holder)
		if s.times.Load() != 1 || s.elsewhere.Load() != 0 {
			t.Errorf("by %s: encoded %d times, %d of them in another goroutine", by, s.times.Load(), s.elsewhere.Load())
		}
	}
}

// pausing is a value whose encoding makes its caller give up, and gives the
// caller time to continue.
type pausing struct {
	giveUp context.CancelFunc
	left   <-chan struct{}
}

func (v pausing) MarshalBSONValue() (byte, []byte, error) {
	v.giveUp()
	select {
	case <-v.left:
	case <-time.After(50 * time.Millisecond): // the caller is here
	}
	kind, data, err := bson.MarshalValue(1)
	return byte(kind), data, err
}

// A caller may change its values after a call has returned. The changes are
// neither written nor searched for.
func TestOnlyWhatWasGivenIsSent(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	if _, err := p.coll.InsertOne(t.Context(), bson.M{"_id": 2, "total": 1}); err != nil {
		t.Fatal(err)
	}
	untouched := func(name string) {
		t.Helper()
		if n, err := p.coll.CountDocuments(t.Context(), bson.M{"$or": bson.A{bson.M{"_id": 2, "lock": bson.M{"$exists": true}}, bson.M{"total": -1}}}); n != 0 || err != nil {
			t.Errorf("%s: a value that was not passed was used: %d, %v", name, n, err)
		}
	}
	for name, call := range calls {
		l := p.locker(p.coll, relations.Exclusive())
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan struct{})
		filter := bson.D{{Key: "total", Value: bson.M{"$gte": pausing{cancel, left}}}, {Key: "_id", Value: 1}}
		if lease, err := call(ctx, l, filter); err == nil && lease != nil {
			p.release(lease)
		}
		filter[1].Value = 2 // the call has returned
		close(left)
		p.rest(l)
		untouched(name)
		p.wantEntries()
	}
	for name, write := range writes {
		l := p.locker(p.coll, relations.Exclusive())
		for form, wrap := range map[string]func(set bson.D) any{
			"classic":  func(set bson.D) any { return bson.D{{Key: "$set", Value: set}} },
			"pipeline": func(set bson.D) any { return bson.A{bson.D{{Key: "$set", Value: set}}} },
		} {
			lease := p.try(l, "write")
			ctx, cancel := context.WithCancel(t.Context())
			left := make(chan struct{})
			set := bson.D{{Key: "x", Value: pausing{cancel, left}}, {Key: "total", Value: 1}}
			_ = write(ctx, lease, wrap(set))
			set[1].Value = -1 // the call has returned
			close(left)
			_ = lease.Release(p.bounded())
			untouched(name + ", " + form)
		}
		p.rest(l)
	}
}

// Callers may use their maps again as soon as a call has returned, wherever it
// was cut off. (The race detector is what fails.)
func TestMapsAreTheCallersAgain(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Exclusive())
	lease := p.try(l, "write")
	fields, filter := bson.M{}, bson.M{"_id": 1}
	for i := range 100 {
		for k := range 50 {
			fields[fmt.Sprint("k", k)] = i
		}
		ctx, cancel := context.WithCancel(t.Context())
		timer := time.AfterFunc(rand.N(60*time.Microsecond), cancel)
		_ = lease.Update(ctx, bson.M{"$set": fields})
		for k := range 50 { // the call has returned
			delete(fields, fmt.Sprint("k", k))
		}
		_, _ = l.TryAcquire(ctx, filter, "write")
		filter["name"] = i // and so has this one
		delete(filter, "name")
		timer.Stop()
		cancel()
	}
	p.release(lease)
}
