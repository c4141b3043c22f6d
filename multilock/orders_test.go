package multilock_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// All orders of some events on one lease: calls, each with what its first command may
// meet, and what others do. Each call's answer is compared with the document and with
// what the contracts promise.

// order is one order of events, on a document of its own.
type order struct {
	*place
	here, there *multilock.Locker
	doc         int
	done        []string
	lease       *doclock.Lease
	below       *doclock.Lease // a downgrade's
	letIn       bool           // another client has the lock
	theirs      *doclock.Lease // or nil
	final       bool           // a call has ended the lease, or may have
	word        error          // what that call said; a release repeats it
	left        bool           // its caller has left: nobody has heard the answer yet
	doubt       bool           // the call was a Detach, and a release may follow
	detached    bool           // it was executed
	writes      []error        // the answer of each write
	busy        time.Time      // a command may be under way until then, though its caller has left
}

const (
	orderTTL = time.Hour       // so that nothing is gone because its time is over
	slow     = 2 * time.Second // a reply; its caller leaves before
)

// orderCalls are the calls that send something.
var orderCalls = map[string]func(o *order, ctx context.Context) error{
	"Update": func(o *order, ctx context.Context) error { return o.lease.Update(ctx, o.write()) },
	"UpdateAndRelease": func(o *order, ctx context.Context) error {
		return o.lease.UpdateAndRelease(ctx, o.write())
	},
	"Release": func(o *order, ctx context.Context) error { return o.lease.Release(ctx) },
	"Delete":  func(o *order, ctx context.Context) error { return o.lease.Delete(ctx) },
	"Renew":   func(o *order, ctx context.Context) error { return o.lease.Renew(ctx) },
	"Detach":  func(o *order, ctx context.Context) error { return errOf(o.lease.Detach(ctx)) },
	"Downgrade": func(o *order, ctx context.Context) error {
		below, err := o.lease.Downgrade(ctx, "read")
		if below != nil {
			o.below = below
		}
		return err
	},
}

// orderFaults are what the commands of a call may meet.
var orderFaults = map[string]func(o *order){
	"":                func(*order) {},
	"request lost":    func(o *order) { o.mem.LoseRequests(1) },
	"reply lost":      func(o *order) { o.mem.LoseReplies(1) },
	"all replies":     func(o *order) { o.mem.LoseReplies(1 << 30) },
	"its caller left": func(o *order) { o.mem.Delay(1, slow) },
}

// orderEvents are what happens besides.
var orderEvents = map[string]func(o *order){
	"time": func(*order) { time.Sleep(orderTTL + time.Second) },
	"removal": func(o *order) {
		_, err := o.coll.UpdateOne(o.Context(), bson.M{"_id": o.doc}, bson.M{"$unset": bson.M{"lock.tags": 1}})
		must(o, err)
	},
	"another client": func(o *order) {
		time.Sleep(orderTTL + time.Second)
		if lease, err := o.there.TryAcquire(o.Context(), doclock.ID(o.doc), "write"); err == nil {
			o.letIn, o.theirs = true, lease
		}
	},
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
func (d orderDocument) entry(of *doclock.Lease) (entry, bool) {
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

func (o *order) fault(format string, args ...any) {
	o.Helper()
	o.Errorf("%v: %s", o.done, fmt.Sprintf(format, args...))
}

// happen has one event happen.
func (o *order) happen(event string) {
	o.done = append(o.done, event)
	if do, ok := orderEvents[event]; ok {
		do(o)
		o.consistent()
		return
	}
	var call, met string
	for name := range orderCalls {
		for fault := range orderFaults {
			if name+" "+fault == event {
				call, met = name, fault
			}
		}
	}
	o.call(call, met)
	o.consistent()
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
func (o *order) call(call, met string) {
	before, _ := o.read()
	_, stood := before.entry(o.lease)
	before0, final, doubt, word, unheard := o.lease.Err(), o.final, o.doubt, o.word, o.left
	calm := !time.Now().Before(o.busy)
	n := len(o.writes)
	ctx := o.Context()
	if met == "its caller left" {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, slow/2)
		defer cancel()
	}
	orderFaults[met](o)
	err := orderCalls[call](o, ctx)
	o.mem.LoseRequests(0)
	o.mem.LoseReplies(0)
	o.mem.Delay(0, 0)
	if len(o.writes) > n {
		o.writes[n] = err
	}
	isLost, isUnknown, isReleased := errors.Is(err, doclock.ErrLost), errors.Is(err, doclock.ErrOutcomeUnknown), errors.Is(err, doclock.ErrReleased)
	left := errors.Is(err, context.DeadlineExceeded)
	if left {
		o.busy = time.Now().Add(time.Minute)
	}
	switch {
	case isLost && isUnknown, isLost && isReleased, isUnknown && isReleased:
		o.fault("two words: %v", err)
	case err != nil && !isLost && !isUnknown && !isReleased && !left && !(call == "Renew" && met == "all replies"):
		o.fault("%v", err)
	case err == nil && o.letIn && !(call == "Release" && final && (word == nil || unheard)):
		o.fault("it returned nil, and another client was let in")
	}
	o.detached = o.detached || call == "Detach" && err == nil
	ends := call != "Update" && call != "Renew"
	switch {
	case !final && ends && !isReleased && !(call == "Downgrade" && isLost):
		o.final, o.word, o.doubt, o.left = true, err, call == "Detach" && isUnknown, left
	case call == "Release" && (doubt || unheard):
		o.word, o.doubt, o.left = err, false, left
	}
	if !calm || left {
		return
	}
	if now := o.lease.Err(); o.final && !errors.Is(now, doclock.ErrReleased) && !errors.Is(now, doclock.ErrLost) {
		o.fault("it returned %v, and Err is %v", err, now)
	}
	after, there := o.read()
	e, stands := after.entry(o.lease)
	switch { // what the answer says of the document
	case err == nil && (call == "Update" || call == "UpdateAndRelease"):
		if count(after.Log, n) != 1 {
			o.fault("it returned nil, and the log is %v", after.Log)
		}
	case err == nil && call == "Delete" && there:
		o.fault("it returned nil, and the document stands")
	case err == nil && call == "Detach" && (!stands || !e.Detached):
		o.fault("it returned nil, and the entry is %+v", e)
	case err == nil && call == "Downgrade":
		if _, made := after.entry(o.below); !made || stands {
			o.fault("it returned nil, and the document has %+v", after.Lock)
		}
	case isLost && stands && time.Now().Before(e.Expires) && call != "Renew" && before0 == nil:
		o.fault("%v, and the entry stands", err)
	}
	if err == nil && (call == "UpdateAndRelease" || call == "Release" && !final) && stands {
		o.fault("it returned nil, and the entry stands")
	}
	switch { // what the contracts promise
	case final && call == "Release" && (doubt || unheard):
	case final && call == "Release":
		if !errors.Is(err, word) && !(err == nil && word == nil) {
			o.fault("it returned %v after %v", err, word)
		}
	case final && call != "Release" && !isReleased && !isLost:
		o.fault("%v after the lease's end", err)
	case final, met == "all replies":
	case call == "Renew":
		if (err == nil) != (before0 == nil && stood) && !isUnknown {
			o.fault("%v; Err was %v, and the entry stood: %v", err, before0, stood)
		}
	case stood && before0 == nil && err != nil:
		o.fault("%v, though the lease was valid", err)
	case stood && met == "" && err != nil && call != "Downgrade" && !errors.Is(before0, doclock.ErrReleased) && !o.known():
		o.fault("%v, though the entry stood", err)
	case !stood && err == nil && met == "":
		o.fault("nil, though the entry was gone")
	}
}

// known says that an earlier answer has said that the entry is gone.
func (o *order) known() bool {
	return slices.ContainsFunc(o.writes, func(err error) bool { return err != nil })
}

// over ends the order: what was left under way ends, and everything is released.
func (o *order) over() {
	o.done = append(o.done, "end")
	time.Sleep(2 * slow)
	_ = o.lease.Release(o.Context())
	if o.below != nil {
		_ = o.below.Release(o.Context())
	}
	time.Sleep(time.Minute) // the clean-up's
	d, there := o.read()
	for i, err := range o.writes {
		n := count(d.Log, i)
		switch {
		case !there:
		case err == nil && n != 1, err != nil && !errors.Is(err, doclock.ErrOutcomeUnknown) && n != 0, n > 1:
			o.fault("write %d returned %v, and the log is %v", i, err, d.Log)
		}
	}
	if o.theirs != nil {
		_ = o.theirs.Release(o.Context()) // which the removal may have taken, too
	}
	for _, of := range []*doclock.Lease{o.lease, o.below} {
		if of == nil {
			continue
		}
		if e, stands := d.entry(of); stands && !(o.detached && e.Detached) && time.Now().Before(e.Expires) {
			o.fault("an entry stays: %+v", e)
		}
	}
}

func count(log []int, i int) (n int) {
	for _, x := range log {
		if x == i {
			n++
		}
	}
	return n
}

var three = flag.Bool("three", false, "try all orders of three undisturbed calls too")

func TestOrdersOfEvents(t *testing.T) {
	t.Parallel()
	var all, plain []string
	for call := range orderCalls {
		for met := range orderFaults {
			all = append(all, call+" "+met)
		}
		plain = append(plain, call+" ")
	}
	for event := range orderEvents {
		all, plain = append(all, event), append(plain, event)
	}
	slices.Sort(all)
	for _, first := range all {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(p *place) {
				here := p.plain(relations.WritePreferring(), doclock.TTL(orderTTL))
				there := p.plain(relations.WritePreferring(), doclock.TTL(orderTTL))
				n := 0
				run := func(events ...string) {
					n++
					_, err := p.coll.InsertOne(p.Context(), bson.M{"_id": 100 + n})
					must(p, err)
					o := &order{place: p, here: here, there: there, doc: 100 + n}
					o.lease = p.got(here.TryAcquire(p.Context(), doclock.ID(o.doc), "write"))
					for _, event := range events {
						o.happen(event)
					}
					o.over()
				}
				for _, second := range all {
					run(first, second)
					if *three && slices.Contains(plain, first) && slices.Contains(plain, second) {
						for _, third := range plain {
							run(first, second, third)
						}
					}
				}
				p.Logf("%d orders", n)
			})
		})
	}
}
