package multilock_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/faultnet"
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

// check fails unless it was encoded so many times, by its caller.
func (s *spy) check(p *place, name string, times int32) {
	p.Helper()
	if got := s.times.Load(); got != times || s.elsewhere.Load() != 0 {
		p.Errorf("%s: encoded %d times, %d of them in another goroutine", name, got, s.elsewhere.Load())
	}
}

// goroutine is the name of the goroutine that calls it.
func goroutine() string {
	stack := make([]byte, 64)
	name, _, _ := bytes.Cut(stack[:runtime.Stack(stack, false)], []byte(" ["))
	return string(name)
}

// writes are the methods that take a caller's update.
var writes = map[string]func(l doclock.Lease, ctx context.Context, update any, opts ...options.Lister[options.UpdateOneOptions]) error{
	"Update":           (doclock.Lease).Update,
	"UpdateAndRelease": (doclock.Lease).UpdateAndRelease,
}

// given is an update with its options that contains v.
type given struct {
	update any
	opts   []options.Lister[options.UpdateOneOptions]
}

func placesOf(v any) map[string]given {
	by := func(o *options.UpdateOneOptionsBuilder) []options.Lister[options.UpdateOneOptions] {
		return []options.Lister[options.UpdateOneOptions]{o}
	}
	one := bson.M{"$inc": bson.M{"total": 1}}
	return map[string]given{
		"the operator's field": {bson.M{"$set": bson.M{"x": v}}, nil},
		"a struct's field":     {bson.M{"$set": struct{ X any }{v}}, nil},
		"beside the library's": {bson.M{"$max": bson.M{"x": v}, "$push": bson.M{"log": v}}, nil},
		"the pipeline":         {bson.A{bson.M{"$set": bson.M{"x": v}}}, nil},
		"the array filter":     {bson.M{"$set": bson.M{"items.$[i]": 1}}, by(options.UpdateOne().SetArrayFilters([]any{bson.M{"i": v}}))},
		"the comment":          {one, by(options.UpdateOne().SetComment(bson.M{"x": v}))},
		"the variables":        {bson.A{bson.M{"$set": bson.M{"x": "$$v"}}}, by(options.UpdateOne().SetLet(bson.M{"v": v}))},
	}
}

// A caller's value is encoded once for each call, by the caller, even if the
// command is sent several times.
func TestValuesAreEncodedOnceAndByTheirCaller(t *testing.T) {
	virtual(t, func(p *place) {
		p.Change(bson.M{"$set": bson.M{"items": bson.A{7}}})
		coll, net := p.faulty()
		l := p.locker(coll, relations.Exclusive())
		for name, ask := range asks {
			for _, by := range []string{"_id", "total"} {
				s := newSpy(1)
				filter := bson.M{by: s}
				if by == "_id" { // which is sent again
					net.Arm(faultnet.LoseReply, "findAndModify")
				}
				lease, err := ask(l, p.bounded(), filter, "write")
				if err != nil {
					p.Fatal(name, by, err)
				}
				if lease != nil {
					p.release(lease)
				}
				s.check(p, name+" by "+by, 1)
			}
		}
		for name, write := range writes {
			s := newSpy(7)
			for place, g := range placesOf(s) {
				lease := p.try(l, "write")
				s.times.Store(0)
				net.Arm(faultnet.LoseReply, "findAndModify")
				if err := write(lease, p.bounded(), g.update, g.opts...); err != nil {
					p.Fatal(name, place, err)
				}
				times := int32(1)
				if place == "beside the library's" {
					times = 2 // it is there twice
				}
				s.check(p, name+", "+place, times)
				_ = lease.Release(p.bounded())
			}
		}
		p.wantEntries()
	})
}

// A waiter's filter is encoded once, however often the waiter asks and whichever
// command removes its entry.
func TestAWaitersFilterIsEncodedOnce(t *testing.T) {
	t.Parallel()
	for _, by := range []string{"_id", "total"} {
		virtually(t, by, func(p *place) {
			l := p.locker(p.coll, relations.Fair())
			p.try(p.locker(p.coll, relations.Fair(), doclock.TTL(time.Hour)), "write")
			s := newSpy(1)
			p.want(errOf(l.Acquire(p.Context(), bson.M{by: s}, "write", doclock.MaxWait(time.Minute))), doclock.ErrConflict)
			p.rest(l)
			s.check(p, "Acquire", 1)
		})
	}
}

// evil begins a line of a log, and steers a terminal.
const evil = "x\n2026/11/25 FATAL all is lost\x1b[2J\x1b]0;y\x07\u009b\u2028\u202e"

// An owner, an _id, a tag, the name of a field and what a server quotes are texts of
// others: they reach errors, String and logs on one line.
func TestTextsOfOthers(t *testing.T) {
	virtual(t, func(p *place) {
		note := func(what string, said any) {
			text := fmt.Sprint(said)
			if strings.ContainsFunc(text, func(r rune) bool { return !strconv.IsPrint(r) }) {
				p.Errorf("%s: %q", what, text)
			}
		}
		failed := func(what string, err error) {
			if note(what, err); err == nil || !strings.Contains(err.Error(), `\u202e`) {
				p.Errorf("%s doesn't quote it: %v", what, err)
			}
		}
		noted := doclock.OnEvent(func(_ context.Context, e doclock.Event) { note(string(e.Kind), e.LogValue()) })
		a := p.locker(p.coll, relations.Fair(), doclock.Owner(evil), noted)
		b := p.locker(p.coll, relations.Fair(), noted)
		must(p, errOf(p.coll.InsertOne(p.Context(), bson.M{"_id": evil, evil: evil})))
		lease, err := a.TryAcquire(p.Context(), doclock.ID(evil), "write")
		must(p, err)
		note("Lease.String", lease)
		note("Lease.LogValue", slog.AnyValue(lease).Resolve())
		for e, err := range admin.Entries(p.Context(), p.coll, admin.Query{}) {
			must(p, err)
			note("Entry.String", e)
		}
		_, err = b.TryAcquire(p.Context(), doclock.ID(evil), "write")
		failed("a refusal", err)
		note("a conflict", p.conflict(err).Error())
		failed("not found", errOf(b.TryAcquire(p.Context(), bson.M{evil: 1}, "write")))
		failed("a refused write", lease.Update(p.Context(), bson.M{"$inc": bson.M{evil: 1}}))
		failed("an invalid one", lease.Update(p.Context(), bson.M{"$set": bson.M{"lock." + evil: 1}}))
		must(p, lease.Release(p.Context()))
		var wrong struct {
			Evil int `bson:"x"`
		}
		must(p, errOf(p.coll.UpdateByID(p.Context(), evil, bson.M{"$set": bson.M{"x": evil}})))
		note("decoding", errOf(b.TryAcquire(p.Context(), doclock.ID(evil), "write", doclock.Into(&wrong))))
		for _, lock := range []bson.M{{"v": evil}, {"fence": evil}, {"tags": bson.M{evil: 1}}} {
			must(p, errOf(p.coll.UpdateByID(p.Context(), evil, bson.M{"$set": bson.M{"lock": lock}})))
			failed("foreign", errOf(b.TryAcquire(p.Context(), doclock.ID(evil), "write")))
			for _, err := range admin.Entries(p.Context(), p.coll, admin.Query{}) {
				failed("admin, foreign", err)
			}
		}
	})
}
