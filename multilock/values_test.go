package multilock_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/google/go-cmp/cmp"
	"go.mongodb.org/mongo-driver/v2/bson"
	driver "go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var whole = bson.M{"_id": int32(1), "name": "flowers", "total": int32(1)}

func (p *place) wantDocument(name string, got, want any) {
	p.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		p.Errorf("%s (- want, + got):\n%s", name, diff)
	}
}

func TestIntoOnGrant(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.WritePreferring())
	var m bson.M
	p.release(p.try(l, "read", doclock.Into(&m)))
	p.wantDocument("TryAcquire", m, whole)
	type category struct {
		ID    int `bson:"_id"`
		Name  string
		Total int
		Lock  *lock
	}
	var c category
	p.release(p.got(l.Acquire(p.bounded(), byName, "read", doclock.Into(&c))))
	p.wantDocument("Acquire", c, category{ID: 1, Name: "flowers", Total: 1})
	var raw bson.Raw
	p.enqueue(l, "write", doclock.Into(&raw))
	must(t, bson.Unmarshal(raw, &m))
	p.wantDocument("Enqueue", m, whole)

	upserting := p.locker(p.coll, relations.Exclusive(), doclock.Upsert())
	var made bson.M
	p.got(upserting.TryAcquire(t.Context(), bson.M{"_id": "new"}, "write", doclock.Into(&made)))
	p.wantDocument("Upsert", made, bson.M{"_id": "new"})

	mine := bson.M{"mine": true} // is unchanged by a refusal
	p.conflict(errOf(l.TryAcquire(t.Context(), flowers, "write", doclock.Into(&mine))))
	p.wantDocument("refused", mine, bson.M{"mine": true})
}

// The document is read at the grant, not at the arrival.
func TestIntoOnConfirm(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	l := p.locker(p.coll, relations.Fair())
	writer := p.try(l, "write")
	var ticketed, waited bson.M
	ticket := p.enqueue(l, "read", doclock.Into(&ticketed))
	call := acquire(t, p.bounded(), l, "read", doclock.Into(&waited))
	p.eventually("both wait", func() bool { return len(p.entries("read")) == 2 })
	must(t, writer.UpdateAndRelease(t.Context(), plusOne))
	if ticketed != nil {
		t.Errorf("a ticket that waits has brought %v", ticketed)
	}
	p.got(ticket.Confirm(t.Context()))
	p.granted(call)
	want := bson.M{"_id": int32(1), "name": "flowers", "total": int32(2)}
	p.wantDocument("ticket", ticketed, want)
	p.wantDocument("acquire", waited, want)
}

// recovered calls f and returns what it panicked with.
func recovered(f func()) (panicked any) {
	defer func() { panicked = recover() }()
	f()
	return nil
}

// panicking is a document whose decoding panics.
type panicking struct{}

func (*panicking) UnmarshalBSON([]byte) error { panic("the caller's codec") }

// decodings are the calls that decode a document for the caller, each of which the lock
// is free for.
func decodings() map[string]func(p *place, l *multilock.Locker, into doclock.AcquireOption) error {
	all := map[string]func(p *place, l *multilock.Locker, into doclock.AcquireOption) error{
		"Confirm after its caller gave up": func(p *place, l *multilock.Locker, into doclock.AcquireOption) error {
			return p.decodeTicket(l, into, func(ticket *multilock.Ticket, ctx context.Context) (doclock.Lease, error) {
				p.mem.Delay(1, 2*time.Second)
				short, cancel := context.WithTimeout(ctx, time.Second)
				defer cancel()
				p.want(errOf(ticket.Confirm(short)), context.DeadlineExceeded)
				p.eventually("the ticket is granted", ticket.Granted)
				return ticket.Confirm(ctx)
			})
		},
	}
	for name, ask := range asks {
		all[name] = func(p *place, l *multilock.Locker, into doclock.AcquireOption) error {
			return errOf(ask(l, p.Context(), flowers, "write", into))
		}
	}
	for name, have := range tickets {
		all[name] = func(p *place, l *multilock.Locker, into doclock.AcquireOption) error {
			return p.decodeTicket(l, into, have)
		}
	}
	return all
}

// decodeTicket has the document of a ticket decoded, which is over then.
func (p *place) decodeTicket(l *multilock.Locker, into doclock.AcquireOption, call func(*multilock.Ticket, context.Context) (doclock.Lease, error)) (err error) {
	holder := p.try(l, "write")
	ticket := p.enqueue(l, "read", into)
	p.release(holder)
	defer func() {
		lease, again := ticket.Confirm(p.Context())
		if lease != nil || again == nil || err == nil && !errors.Is(again, doclock.ErrReleased) {
			p.Errorf("Confirm again: %v, %v", lease, again)
		}
		ok(p, ticket.Cancel(p.Context()))
	}()
	_, err = call(ticket, p.Context())
	return err
}

// decoding is a document with a decoder of the caller's own.
type decoding func() error

func (d decoding) UnmarshalBSON([]byte) error { return d() }

// If the document can't be decoded, the error says so, and the lock is released. What the
// caller's decoder returns is no answer of the server: nothing is asked again.
func TestIntoThatFailsReleasesTheLock(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		for name, decode := range decodings() {
			n := 0
			into := decoding(func() error { n++; return doclock.ErrConflict })
			fault{doclock.ErrNotAcquired, []string{"decode document 1 into"}}.check(p, name, decode(p, l, doclock.Into(&into)))
			if n != 1 {
				p.Errorf("%s: the document was decoded %d times", name, n)
			}
			p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
		}
	})
}

// A decoder that takes longer than the TTL loses the lease, and keeps nobody out: the next
// waiter of the same Locker gets the lock when the entry has expired.
func TestASlowDecoderHoldsNobodyUp(t *testing.T) {
	for name, ask := range asks {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(p *place) {
				l := p.locker(p.coll, relations.Exclusive())
				into := decoding(func() error { time.Sleep(10 * time.Minute); return nil })
				slow := make(chan error, 1)
				go func() { slow <- errOf(ask(l, p.Context(), flowers, "write", doclock.Into(&into))) }()
				time.Sleep(time.Second)
				lease, err := l.Acquire(p.Context(), flowers, "write", doclock.MaxWait(time.Minute))
				if err != nil {
					p.Error(err)
				} else {
					p.release(lease)
				}
				<-slow
			})
		})
	}
}

// A document that can't be decoded changes nothing of its target. Until the release is answered, a TryAcquire may be
// refused. Then the lock is free.
func TestIntoThatFailsReleasesInTheBackground(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Exclusive())
		p.mem.Delay(1, time.Second, locktest.Releases, locktest.CleanUps)
		begun := time.Now()
		wrong := struct{ Name int }{7}
		_, err := l.TryAcquire(p.Context(), flowers, "write", doclock.Into(&wrong))
		if err == nil || wrong.Name != 7 || time.Since(begun) > 0 {
			p.Errorf("%v, %v, after %v", err, wrong, time.Since(begun))
		}
		p.want(errOf(l.TryAcquire(p.Context(), flowers, "write")), doclock.ErrConflict)
		time.Sleep(time.Second)
		synctest.Wait()
		p.try(l, "write")
	})
}

// The caller can recover from a panic of its own decoder, and the lock is released.
func TestAPanicInIntoIsTheCallers(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.locker(p.coll, relations.Fair())
		into := doclock.Into(&panicking{})
		for name, decode := range decodings() {
			if got := recovered(func() { _ = decode(p, l, into) }); got != "the caller's codec" {
				p.Errorf("%s: recovered %v", name, got)
			}
			p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
		}

		// A waiter that is handed the lock, and the next one behind it.
		holder := p.try(l, "write")
		first := begin(p, func() (any, error) {
			return recovered(func() { _, _ = l.Acquire(p.bounded(), flowers, "write", into) }), nil
		})
		p.queued(l, 1)
		next := acquire(p, p.bounded(), l, "write")
		p.queued(l, 2)
		p.release(holder)
		if got, _ := first.wait(); got != "the caller's codec" {
			p.Errorf("the waiter: recovered %v", got)
		}
		p.wantEntries(p.granted(next))
	})
}

// exploding is a value whose codec panics.
type exploding struct{}

func (exploding) MarshalBSONValue() (byte, []byte, error) { panic("the caller's codec") }

// The caller can recover from a panic in its own codec. Nothing is sent, and
// nothing stays behind.
func TestAPanicInACodecIsTheCallers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, w := p.watched()
	l := p.locker(coll, relations.Fair())
	explodes := func(name string, call func()) {
		t.Helper()
		p.sends(w, 0, name, func() error {
			if got := recovered(call); got != "the caller's codec" {
				t.Errorf("%s: recovered %v", name, got)
			}
			return nil
		})
	}
	for name, ask := range asks {
		explodes(name, func() { _, _ = ask(l, p.bounded(), bson.M{"_id": exploding{}}, "write") })
	}
	for name, write := range writes {
		lease := p.try(l, "write")
		for place, g := range placesOf(exploding{}) {
			explodes(name+", "+place, func() { _ = write(lease, p.bounded(), g.update, g.opts...) })
		}
		ok(t, errors.Join(lease.Renew(p.bounded()), lease.Update(p.bounded(), plusOne)))
		p.wantEntries(lease)
		p.release(lease)
	}
	if n := l.WaitQueues(); n != 0 {
		t.Errorf("%d documents are remembered", n)
	}
}

const monitors = "the caller's monitor"

// panics is a collection of a client whose monitor panics at the next command with this
// comment, or any, before it is sent or after its answer.
func (p *place) panics() (coll *mongo.Collection, arm func(sent bool, comment string)) {
	p.Helper()
	var before, after atomic.Pointer[string]
	client := p.mem.Connect(options.Client().SetMonitor(&driver.CommandMonitor{
		Started: func(_ context.Context, e *driver.CommandStartedEvent) {
			comment, _ := e.Command.Lookup("comment").StringValueOK()
			if at := before.Load(); at != nil && strings.HasPrefix(comment, *at) && before.CompareAndSwap(at, nil) {
				panic(monitors)
			}
		},
		Succeeded: func(context.Context, *driver.CommandSucceededEvent) {
			if after.Swap(nil) != nil {
				panic(monitors)
			}
		},
	}))
	return client.Database(p.coll.Database().Name()).Collection(p.coll.Name()), func(sent bool, comment string) {
		if sent {
			after.Store(&comment)
		} else {
			before.Store(&comment)
		}
	}
}

// The caller can recover from a panic of his client's command monitor. The command is of
// unknown outcome: what it may have left is removed, and a lease that stands can be used.
// (That each call raises it, docs/errors.md shows.)
func TestAPanicInAMonitorIsTheCallers(t *testing.T) {
	virtual(t, func(p *place) {
		coll, arm := p.panics()
		l := p.locker(coll, relations.Fair(), doclock.ShareInProcess("read"))
		free := func() {
			p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
			time.Sleep(2 * calm) // no removal is owed any more, whose command could panic instead
		}
		for _, sent := range []bool{false, true} {
			panics := func(name string, call func()) {
				p.Helper()
				arm(sent, "")
				if got := recovered(call); got != monitors {
					p.Errorf("%s, sent: %v: recovered %v", name, sent, got)
				}
			}
			for name, ask := range asks {
				panics(name, func() { _, _ = ask(l, p.Context(), flowers, "write") })
				free()
			}

			lease := p.try(l, "write")
			waiter := acquire(p, p.Context(), l, "write")
			p.queued(l, 1)
			panics("Renew", func() { _ = lease.Renew(p.Context()) })
			panics("Update", func() { _ = lease.Update(p.Context(), plusOne) })
			ok(p, lease.Renew(p.Context()))
			ok(p, lease.Update(p.Context(), plusOne))
			panics("Release", func() { _ = lease.Release(p.Context()) })
			p.want(lease.Release(p.Context()), doclock.ErrOutcomeUnknown) // raised before
			p.release(p.granted(waiter))
			free()
			reader := p.try(l, "read") // and who joins its entry
			time.Sleep(time.Second)
			panics("TryAcquire of one who joins", func() { _, _ = l.TryAcquire(p.Context(), flowers, "read") })
			p.release(reader)
			free()
		}
	})
}

// A monitor's panic in a renewal or a clean-up is told by an event, and the work goes on.
func TestAPanicInAMonitorInTheBackground(t *testing.T) {
	virtual(t, func(p *place) {
		coll, arm := p.panics()
		heard, hear := p.heard()
		l := p.locker(coll, relations.Fair(), hear)
		told := func(kind doclock.EventKind) {
			p.Helper()
			all := heard.of(kind)
			if len(all) != 1 || !strings.Contains(all[0].Err.Error(), monitors) {
				p.Errorf("%s: %v", kind, all)
			}
		}

		lease := p.try(l, "write")
		kept := lease.KeepAlive(p.Context())
		arm(false, "doclock renew")
		time.Sleep(2 * calm)
		ok(p, kept.Err())
		told(doclock.EventRenewalFailed)
		p.release(lease)

		p.mem.LoseReplies(1, locktest.Acquires)
		arm(false, "doclock clean-up")
		p.want(errOf(l.TryAcquire(p.within(time.Millisecond), flowers, "write")), doclock.ErrNotAcquired)
		p.eventually("the lock is free", func() bool { return len(p.entries()) == 0 })
		told(doclock.EventCleanUpFailed)
	})
}

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

// The caller can recover from a panic of his monitor in a release of several leases, one of which others share.
func TestAPanicInAMonitorOfASharedLeaseAmongSeveral(t *testing.T) {
	virtual(t, func(p *place) {
		coll, arm := p.panics()
		l := p.sharing(coll)
		for comment, call := range map[string]func(multilock.Leases){
			"doclock renew":   func(ls multilock.Leases) { _ = ls.Renew(p.Context()) },
			"doclock release": func(ls multilock.Leases) { _ = ls.Release(p.Context()) },
		} {
			shared := p.try(l, "read")
			arm(false, comment)
			if got := recovered(func() { call(multilock.Leases{shared}) }); got != monitors {
				p.Errorf("%s: recovered %v", comment, got)
			}
			_ = shared.Release(p.Context())
			time.Sleep(2 * calm)
		}
	})
}
