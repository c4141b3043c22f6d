package multilock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// All orders of some events on one lease: calls, each with what its first command may
// meet, and what others do. Each call's answer is compared with the document and with
// what the contracts promise (below). And calls at once are answered as in one of
// their orders.

// order is one order of events, on a document of its own.
type order struct {
	*place
	ending
	net         *locktest.Server
	here, there *multilock.Locker
	doc         int
	done        []string
	lease       doclock.Lease
	below       doclock.Lease // a conversion's
	theirs      doclock.Lease // another client's, or nil
	detached    bool          // a Detach was executed
	errs        []error       // the answer of each call
	writes      []error       // the answer of each write
	busy        time.Time     // a command may be under way until then, though its caller has left
}

const (
	orderTTL = time.Hour       // so that nothing is gone because its time is over
	slow     = 2 * time.Second // a reply; its caller leaves before
)

// event is something that happens to the lease.
type event struct {
	name   string
	happen func(o *order)
}

// orderCall is a call that sends something.
type orderCall struct {
	name string
	kind locktest.Kind // of its command
	ends bool          // the lease
	send func(o *order, ctx context.Context) error
}

var orderCalls = []orderCall{
	{"Update", locktest.Writes, false, func(o *order, ctx context.Context) error { return o.lease.Update(ctx, o.write()) }},
	{"UpdateAndRelease", locktest.Writes, true, func(o *order, ctx context.Context) error {
		return o.lease.UpdateAndRelease(ctx, o.write())
	}},
	{"Release", locktest.Releases, true, func(o *order, ctx context.Context) error { return o.lease.Release(ctx) }},
	{"Delete", locktest.Writes, true, func(o *order, ctx context.Context) error { return o.lease.Delete(ctx) }},
	{"Renew", locktest.Renewals, false, func(o *order, ctx context.Context) error { return o.lease.Renew(ctx) }},
	{"Detach", locktest.Releases, true, func(o *order, ctx context.Context) error { return errOf(o.lease.Detach(ctx)) }},
	{"Convert", locktest.Acquires, true, func(o *order, ctx context.Context) error {
		below, err := o.lease.Convert(ctx, "read")
		if below != nil {
			o.below = below
		}
		return err
	}},
}

// orderFault is what the commands of a call may meet.
type orderFault struct {
	name string
	arm  func(o *order, c orderCall)
	end  func(o *order) // or nil: after the call
}

var (
	undisturbed = orderFault{name: "", arm: func(*order, orderCall) {}}
	requestLost = orderFault{name: "request lost", arm: func(o *order, _ orderCall) { o.net.LoseRequests(1) }}
	replyLost   = orderFault{name: "reply lost", arm: func(o *order, _ orderCall) { o.net.LoseReplies(1) }}
	allReplies  = orderFault{name: "all replies", arm: func(o *order, _ orderCall) { o.net.LoseReplies(1 << 30) }}
	callerLeft  = orderFault{name: "its caller left", arm: func(o *order, _ orderCall) { o.net.Delay(1, slow) }}

	orderFaults = []orderFault{undisturbed, requestLost, replyLost, allReplies, callerLeft}

	refusal     = mongo.CommandError{Code: 13, Message: "not authorized"}
	refusedOnce = orderFault{name: "refused", arm: func(o *order, c orderCall) { o.net.Fail(1, refusal, c.kind) }}
)

// disarm ends what a fault has armed.
func (o *order) disarm() {
	o.net.LoseRequests(0)
	o.net.LoseReplies(0)
	o.net.Delay(0, 0)
	o.net.Fail(0, refusal)
}

// othersEvents are what happens besides.
var othersEvents = []event{
	{"time", func(*order) { time.Sleep(orderTTL + time.Second) }},
	{"removal", func(o *order) {
		_, err := o.coll.UpdateOne(o.Context(), bson.M{"_id": o.doc}, bson.M{"$unset": bson.M{"lock.tags": 1}})
		must(o, err)
	}},
	{"another client", func(o *order) {
		time.Sleep(orderTTL + time.Second)
		if lease, err := o.there.TryAcquire(o.Context(), doclock.ID(o.doc), "write"); err == nil {
			o.theirs = lease
		}
	}},
}

// callEvents are all calls, with each of these faults.
func callEvents(faults ...orderFault) (all []event) {
	for _, c := range orderCalls {
		for _, f := range faults {
			all = append(all, event{c.name + " " + f.name, func(o *order) { o.call(c, f) }})
		}
	}
	return all
}

func (o *order) write() bson.M {
	o.writes = append(o.writes, nil)
	return bson.M{"$push": bson.M{"log": len(o.writes) - 1}}
}

type orderDocument struct {
	Log  []int
	Lock lock
}

// read reads the document. Without one it is zero.
func (o *order) read() (d orderDocument, there bool) {
	err := o.coll.FindOne(o.Context(), bson.M{"_id": o.doc}).Decode(&d)
	if err != nil && !errors.Is(err, mongo.ErrNoDocuments) {
		o.Fatal(err)
	}
	return d, err == nil
}

// entry is a lease's entry in the document.
func (d orderDocument) entry(of doclock.Lease) (entry, bool) {
	id := of.ID()
	for _, entries := range d.Lock.Tags {
		for _, e := range entries {
			if string(e.ID.Data) == string(id[:]) {
				return e, true
			}
		}
	}
	return entry{}, false
}

// count is how often the write is in the document.
func (d orderDocument) count(write int) (n int) {
	for _, w := range d.Log {
		if w == write {
			n++
		}
	}
	return n
}

// happens has an event happen.
func (o *order) happens(e event) {
	o.done = append(o.done, e.name)
	e.happen(o)
	o.consistent()
}

// over ends the order: what was left under way ends, and everything is released.
func (o *order) over() {
	o.done = append(o.done, "end")
	time.Sleep(2 * slow)
	_ = o.lease.Release(o.Context())
	if o.below != nil {
		_ = o.below.Release(o.Context())
	}
	if o.theirs != nil {
		_ = o.theirs.Release(o.Context()) // which the removal may have taken, too
	}
	time.Sleep(time.Minute) // the clean-up's
	d, there := o.read()
	for i, err := range o.writes {
		n := d.count(i)
		switch {
		case !there:
		case err == nil && n != 1, err != nil && !errors.Is(err, doclock.ErrOutcomeUnknown) && n != 0, n > 1:
			o.fault("write %d returned %v, and the log is %v", i, err, d.Log)
		}
	}
	for _, entries := range d.Lock.Tags {
		for _, e := range entries {
			if !(o.detached && e.Detached) && time.Now().Before(e.Expires) {
				o.fault("an entry stays: %+v", e)
			}
		}
	}
}

// orders runs orders of events, each on a document of its own.
type orders struct {
	*place
	net         *locktest.Server
	here, there *multilock.Locker
	n           int
}

func (p *place) orders() *orders {
	ttl := doclock.TTL(orderTTL)
	return &orders{place: p, net: p.mem, here: p.plain(relations.WritePreferring(), ttl), there: p.plain(relations.WritePreferring(), ttl)}
}

// run has the events happen one after the other.
func (all *orders) run(events ...event) *order {
	all.n++
	o := &order{place: all.place, net: all.net, here: all.here, there: all.there, doc: 100 + all.n}
	_, err := o.coll.InsertOne(o.Context(), bson.M{"_id": o.doc})
	must(o, err)
	o.lease = o.got(o.here.TryAcquire(o.Context(), doclock.ID(o.doc), "write"))
	for _, e := range events {
		o.happens(e)
	}
	return o
}

var long = flag.Bool("long", false, "try all orders of two events and of three undisturbed ones, all calls at once, all elections and all refusals")

// tried is whether a combination of these numbers is tried: in the short form every
// seventh, so that each event meets some others at each place.
func tried(numbers ...int) bool {
	sum := 0
	for _, n := range numbers {
		sum += n
	}
	return *long || sum%7 == 0
}

// undisturbedEvents are those of which three in a row are tried.
func undisturbedEvents() []event { return append(callEvents(undisturbed), othersEvents...) }

func TestOrdersOfEvents(t *testing.T) {
	t.Parallel()
	plain := undisturbedEvents()
	isPlain := func(e event) bool {
		return slices.ContainsFunc(plain, func(p event) bool { return p.name == e.name })
	}
	every := append(callEvents(orderFaults...), othersEvents...)
	for i, first := range every {
		t.Run(first.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(p *place) {
				all := p.orders()
				for j, second := range every {
					if tried(i, j) {
						all.run(first, second).over()
					}
					if *long && isPlain(first) && isPlain(second) {
						for _, third := range plain {
							all.run(first, second, third).over()
						}
					}
				}
				p.Logf("%d orders", all.n)
			})
		})
	}
}

// step is one of several calls at once.
type step struct {
	orderCall
	met orderFault
}

func (s step) event() event {
	return event{s.name + " " + s.met.name, func(o *order) { o.call(s.orderCall, s.met) }}
}

// atOnce is an event: the command of the first call takes a second, and meanwhile the
// others are called.
func atOnce(steps ...step) event {
	var names []string
	for _, s := range steps {
		names = append(names, s.name+" "+s.met.name)
	}
	return event{fmt.Sprintf("%q at once", names), func(o *order) {
		o.net.Delay(1, time.Second, steps[0].kind)
		var calls []*pending[*answer]
		for _, s := range steps {
			s.met.arm(o, s.orderCall)
			calls = append(calls, begin(o, func() (*answer, error) { return o.ask(s.orderCall, undisturbed), nil }))
			synctest.Wait()
		}
		for _, c := range calls {
			a, _ := c.wait()
			o.heard(a)
			o.words(a)
		}
		o.disarm()
	}}
}

// outcome is what the callers know, and what the document has.
func (o *order) outcome() string {
	var words []string
	for _, err := range o.errs {
		words = append(words, wordOf(err))
	}
	slices.Sort(words)
	d, there := o.read()
	var entries []string
	for tag, of := range d.Lock.Tags {
		for _, e := range of {
			entries = append(entries, fmt.Sprintf("%s, detached: %v", tag, e.Detached))
		}
	}
	return fmt.Sprintf("%q; there: %v, %d writes, %q", words, there, len(d.Log), entries)
}

// Calls at once are answered as if they had come one after the other, in whatever order.
func TestCallsAtOnce(t *testing.T) {
	t.Parallel()
	before := append(undisturbedEvents(), event{"nothing", func(*order) {}})
	if *long {
		before = append(before, callEvents(requestLost, replyLost)...)
	}
	update := step{orderCalls[0], undisturbed}
	for i, first := range before {
		t.Run(first.name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(p *place) {
				all := p.orders()
				for j, a := range orderCalls {
					for k, b := range orderCalls {
						if !tried(i, j, k) {
							continue
						}
						one, two, refused := step{a, undisturbed}, step{b, undisturbed}, step{a, refusedOnce}
						all.asInAnOrder(first, one, two)
						all.asInAnOrder(first, update, one, two)
						if a.name == "Release" || b.name == "Release" { // which ends the lease for the others at once
							all.run(first, atOnce(update, refused, two)).over()
							continue
						}
						all.asInAnOrder(first, update, refused, two)
					}
				}
				p.Logf("%d orders", all.n)
			})
		})
	}
}

// asInAnOrder compares calls at once with the same calls in each of their orders.
func (all *orders) asInAnOrder(first event, steps ...step) {
	together := all.run(first, atOnce(steps...))
	got := together.outcome()
	together.over()
	var would []string
	for _, turn := range turns(steps) {
		events := []event{first}
		for _, s := range turn {
			events = append(events, s.event())
		}
		o := all.run(events...)
		outcome := o.outcome()
		o.over()
		if outcome == got {
			return
		}
		would = append(would, outcome)
	}
	together.fault("%s, and one after the other %q", got, would)
}

// turns are all orders of the steps, their own first.
func turns(steps []step) (all [][]step) {
	if len(steps) == 0 {
		return [][]step{nil}
	}
	for i, first := range steps {
		for _, rest := range turns(slices.Delete(slices.Clone(steps), i, i+1)) {
			all = append(all, append([]step{first}, rest...))
		}
	}
	return all
}

// A process serves its waiters in order, and processes take turns: a later waiter of
// another one comes before most of many.
func TestWaitersComeInTurn(t *testing.T) {
	for name, rules := range map[string]relations.Rules{"write": relations.Fair(), "slot": relations.Semaphore(1)} {
		virtually(t, name, func(p *place) {
			a, b := p.locker(p.coll, rules), p.locker(p.coll, rules)
			held := p.got(b.TryAcquire(p.Context(), flowers, name))
			held.KeepAlive(p.Context())
			order := make(chan int, 20)
			var all sync.WaitGroup
			wait := func(l *multilock.Locker, who int) {
				all.Go(func() {
					ok(p, l.Do(p.Context(), flowers, name, func(context.Context, doclock.Lease) error {
						order <- who
						time.Sleep(3 * time.Second)
						return nil
					}))
				})
				time.Sleep(100 * time.Millisecond)
			}
			for i := range 10 {
				wait(a, i)
			}
			wait(b, 99)
			p.release(held)
			all.Wait()
			close(order)
			at, last := 0, -1
			for who := range order {
				if who == 99 {
					at = last + 1 // so many of a came before
				} else if who != last+1 {
					p.Errorf("%d comes after %d", who, last)
				} else {
					last = who
				}
			}
			if at == 0 || at > 9 {
				p.Errorf("the other process's waiter comes after %d of ten", at)
			}
		})
	}
}

// What the contracts promise of the calls in orders_test.go.

// ending is what is known of the call that has ended the lease, or may have.
type ending struct {
	final bool  // there is one
	word  error // what it said; a release repeats it
	left  bool  // its caller has left: nobody has heard the answer yet
	doubt bool  // it was a Detach, and a release may follow
}

// open says that a release may still be sent.
func (e ending) open() bool { return e.final && (e.doubt || e.left) }

// answer is that of one call, with what was known before it.
type answer struct {
	orderCall
	err    error
	met    string
	elects bool // it met an election: its outcome may be unknown
	before ending
	was    error // the lease's Err
	stood  bool  // the lease's entry
	calm   bool  // no command was under way
	write  int   // its number, if it writes
}

func (a *answer) is(target error) bool { return errors.Is(a.err, target) }

// left says that the caller has left.
func (a *answer) left() bool { return a.is(context.DeadlineExceeded) }

// refused says that the server has refused the command.
func (a *answer) refused() bool { return codeOf(a.err) == refusal.Code }

func wordOf(err error) string {
	for _, word := range []error{doclock.ErrLost, doclock.ErrOutcomeUnknown, doclock.ErrReleased, doclock.ErrConflict} {
		if errors.Is(err, word) {
			return word.Error()
		}
	}
	for cause := err; cause != nil; cause = errors.Unwrap(cause) { // without the document, which each order has its own of
		err = cause
	}
	return fmt.Sprint(err)
}

func (o *order) fault(format string, args ...any) {
	o.Helper()
	o.Errorf("%v: %s", o.done, fmt.Sprintf(format, args...))
}

// consistent checks what a lease says of itself.
func (o *order) consistent() {
	err := o.lease.Err()
	over := errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrReleased)
	select {
	case <-o.lease.Done():
		if !over {
			o.fault("Done is closed, and Err is %v", err)
		}
	default:
		if over {
			o.fault("Done is open, and Err is %v", err)
		}
	}
	if left := o.lease.Remaining(); (left > 0) != (err == nil) {
		o.fault("%v left, and Err is %v", left, err)
	}
}

// call makes a call and judges its answer.
func (o *order) call(c orderCall, met orderFault) {
	a := o.ask(c, met)
	if met.end != nil {
		met.end(o)
	}
	o.disarm()
	o.heard(a)
	o.words(a)
	if !a.calm || a.left() || a.refused() {
		return
	}
	o.truth(a)
	o.promise(a)
}

// ask makes a call.
func (o *order) ask(c orderCall, met orderFault) *answer {
	d, _ := o.read()
	_, stood := d.entry(o.lease)
	a := &answer{
		orderCall: c, met: met.name, elects: met.end != nil, before: o.ending, was: o.lease.Err(), stood: stood,
		calm: !time.Now().Before(o.busy), write: len(o.writes),
	}
	ctx := o.Context()
	if met.name == callerLeft.name {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, slow/2)
		defer cancel()
	}
	met.arm(o, c)
	a.err = c.send(o, ctx)
	return a
}

// heard notes an answer.
func (o *order) heard(a *answer) {
	o.errs = append(o.errs, a.err)
	if a.write < len(o.writes) && (a.name == "Update" || a.name == "UpdateAndRelease") {
		o.writes[a.write] = a.err
	}
	if a.left() {
		o.busy = time.Now().Add(time.Minute)
	}
	o.detached = o.detached || a.name == "Detach" && a.err == nil
	unknown := a.is(doclock.ErrOutcomeUnknown)
	switch {
	case a.refused() && a.kind == locktest.Writes && a.ends: // the lock is released by a command of its own
		o.ending = ending{final: true}
		if a.is(doclock.ErrLost) || unknown {
			o.word = a.err
		}
	case a.refused(): // the lease goes on
	case !o.final && a.ends && !a.is(doclock.ErrReleased) && !(a.name == "Convert" && a.is(doclock.ErrLost)):
		o.ending = ending{final: true, word: a.err, left: a.left(), doubt: a.name == "Detach" && unknown}
	case a.name == "Release" && o.open():
		o.ending = ending{final: true, word: a.err, left: a.left()}
	}
}

// words checks the words of an answer.
func (o *order) words(a *answer) {
	isLost, isUnknown, isReleased := a.is(doclock.ErrLost), a.is(doclock.ErrOutcomeUnknown), a.is(doclock.ErrReleased)
	repeats := a.name == "Release" && a.before.final && (a.before.word == nil || a.before.left)
	switch {
	case isLost && isUnknown, isLost && isReleased, isUnknown && isReleased:
		o.fault("two words: %v", a.err)
	case a.err != nil && !isLost && !isUnknown && !isReleased && !a.left() && !a.refused() && !(a.name == "Renew" && a.met == allReplies.name):
		o.fault("%v", a.err)
	case a.err == nil && o.theirs != nil && !repeats:
		o.fault("it returned nil, and another client was let in")
	}
}

// truth compares what an answer says with the document.
func (o *order) truth(a *answer) {
	if now := o.lease.Err(); o.final && !errors.Is(now, doclock.ErrReleased) && !errors.Is(now, doclock.ErrLost) {
		o.fault("it returned %v, and Err is %v", a.err, now)
	}
	d, there := o.read()
	e, stands := d.entry(o.lease)
	switch {
	case a.err == nil && (a.name == "Update" || a.name == "UpdateAndRelease"):
		if d.count(a.write) != 1 {
			o.fault("it returned nil, and the log is %v", d.Log)
		}
	case a.err == nil && a.name == "Delete" && there:
		o.fault("it returned nil, and the document stands")
	case a.err == nil && a.name == "Detach" && (!stands || !e.Detached):
		o.fault("it returned nil, and the entry is %+v", e)
	case a.err == nil && a.name == "Convert":
		if _, made := d.entry(o.below); !made || stands {
			o.fault("it returned nil, and the document has %+v", d.Lock)
		}
	case a.is(doclock.ErrLost) && stands && time.Now().Before(e.Expires) && a.name != "Renew" && a.was == nil:
		o.fault("%v, and the entry stands", a.err)
	}
	if a.err == nil && (a.name == "UpdateAndRelease" || a.name == "Release" && !a.before.final) && stands {
		o.fault("it returned nil, and the entry stands")
	}
}

// promise compares an answer with what was known before.
func (o *order) promise(a *answer) {
	before, err := a.before, a.err
	isLost, isReleased := a.is(doclock.ErrLost), a.is(doclock.ErrReleased)
	switch {
	case a.name == "Release" && before.open():
	case a.name == "Release" && before.final:
		if !errors.Is(err, before.word) && !(err == nil && before.word == nil) {
			o.fault("it returned %v after %v", err, before.word)
		}
	case before.final && !isReleased && !isLost:
		o.fault("%v after the lease's end", err)
	case a.elects && isLost && a.stood && a.was == nil:
		o.fault("%v, and nobody else was there", err)
	case before.final, a.met == allReplies.name, a.elects && a.is(doclock.ErrOutcomeUnknown):
	case a.name == "Renew":
		if (err == nil) != (a.was == nil && a.stood) && !a.is(doclock.ErrOutcomeUnknown) {
			o.fault("%v; Err was %v, and the entry stood: %v", err, a.was, a.stood)
		}
	case a.stood && a.was == nil && err != nil:
		o.fault("%v, though the lease was valid", err)
	case a.stood && a.met == "" && err != nil && a.name != "Convert" && !errors.Is(a.was, doclock.ErrReleased) && !o.known():
		o.fault("%v, though the entry stood", err)
	case !a.stood && err == nil && a.met == "":
		o.fault("nil, though the entry was gone")
	}
}

// known says that an earlier answer has said that the entry is gone.
func (o *order) known() bool {
	return slices.ContainsFunc(o.writes, func(err error) bool { return err != nil })
}
