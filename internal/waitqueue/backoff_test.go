package waitqueue

import (
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"pgregory.net/rapid"
)

func TestPauseKeepsItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		waited := time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "waited"))
		free := time.Duration(rapid.Int64Range(-int64(time.Second), int64(time.Minute)).Draw(t, "free"))
		if rapid.Bool().Draw(t, "soon") {
			free /= 100
		}
		d := Pause(engine.DefaultPollInterval, waited, waited, free, 0)
		fraction := min(max(waited/8, 2*time.Millisecond), time.Second)
		switch {
		case d < 0:
			t.Fatalf("the pause is %v", d)
		case free > 0 && d >= free+2*time.Millisecond:
			t.Fatalf("the pause is %v; the lock becomes free in %v", d, free)
		case d >= fraction*3/2+2*time.Millisecond:
			t.Fatalf("the pause is %v, after %v", d, waited)
		case d < fraction/2 && d < free: // shorter only for the sake of free
			t.Fatalf("the pause is only %v, after %v", d, waited)
		}
	})
}

// Waiters that were refused together don't come back together.
func TestPauseJitters(t *testing.T) {
	t.Parallel()
	for _, free := range []time.Duration{0, 10 * time.Millisecond} {
		shortest, longest := time.Hour, time.Duration(0)
		for range 200 {
			d := Pause(engine.DefaultPollInterval, time.Second, time.Second, free, 0)
			shortest, longest = min(shortest, d), max(longest, d)
		}
		if spread := longest - shortest; spread < time.Millisecond || free == 0 && spread < 60*time.Millisecond {
			t.Errorf("pauses are from %v to %v, where the lock becomes free in %v", shortest, longest, free)
		}
	}
}

// Those far from the head of the document's queue ask less often, and still no
// later than the lock becomes free.
func TestPauseGrowsWithThoseAhead(t *testing.T) {
	const ahead = 9
	for range 1000 {
		near, far := Pause(engine.DefaultPollInterval, time.Second, time.Second, 0, 0), Pause(engine.DefaultPollInterval, time.Second, time.Second, 0, ahead)
		if 3*far < (1+ahead)*near {
			t.Fatalf("%v with nobody ahead, %v with %d", near, far, ahead)
		}
		if d := Pause(engine.DefaultPollInterval, time.Second, time.Second, 50*time.Millisecond, ahead); d > 50*time.Millisecond+shortestPause {
			t.Fatalf("%v, though the lock becomes free before", d)
		}
	}
}

// However long its waiter has waited, a place in the document's queue is asked
// after as often as the queue moves: nobody else can have that turn. Without a
// place, whoever has waited long lets others ask.
func TestAPlaceIsPolledAsItsQueueMoves(t *testing.T) {
	t.Parallel()
	h := newHand()
	now := time.UnixMilli(1_000_000)
	d := newQueue(Config{Rules: relations.Fair(), Longest: engine.DefaultPollInterval, Now: h.now, Holds: holdsNone}, "one")
	d.view.update(image(1, now, heldBy("write", 1, now.Add(time.Hour))), 0)
	place := Place{Seq: 2, Confirm: time.Hour}
	for _, c := range []struct {
		name           string
		place          Place
		unchanged      time.Duration
		least, longest time.Duration
	}{
		{"a place, and the queue moves", place, 0, shortestPause / 2, 5 * shortestPause},
		{"a place, and nothing moves", place, time.Hour, engine.DefaultPollInterval / 2, engine.DefaultPollInterval * 3 / 2},
		{"no place, and the lock goes round", Place{}, 0, engine.DefaultPollInterval / 2, engine.DefaultPollInterval * 3 / 2},
	} {
		w := &Waiter{Request: request("write", h), queue: d, place: c.place, asked: h.now()}
		d.poller, d.view.changed = w, h.now()-c.unchanged
		if pause := d.pause(w); pause < c.least || pause > c.longest {
			t.Errorf("%s: it pauses for %v, want %v to %v", c.name, pause, c.least, c.longest)
		}
	}
}

// Local runs grow as long as nobody else is seen, and are short as soon as
// somebody is.
func TestLocalRunsGrowWhileNobodyComes(t *testing.T) {
	t.Parallel()
	h := newHand()
	r := &localRun{clock: h.now, most: firstRun}
	rivals := time.Duration(0)
	grants := func(want ...time.Duration) {
		t.Helper()
		for i, w := range want {
			if r.begin(rivals); r.most != w {
				t.Errorf("run %d may last %v, want %v", i, r.most, w)
			}
		}
	}
	grants(2*firstRun, 4*firstRun, 8*firstRun, loneRun, loneRun)
	rivals = r.asked + 1
	h.pass(1)
	grants(rivalRun, 2*rivalRun, 4*rivalRun)
}

// A run ends after its time, or after many handoffs.
func TestALocalRunIsBounded(t *testing.T) {
	t.Parallel()
	h := newHand()
	r := &localRun{clock: h.now, most: firstRun}
	count := func(each time.Duration) (n int) {
		for n <= longestRun && r.goesOn() {
			r.handed++
			n++
			h.pass(each)
		}
		return n
	}
	if n := count(time.Millisecond); n != int(firstRun/time.Millisecond)+1 {
		t.Errorf("%d handoffs of a millisecond each", n)
	}
	if n := count(time.Nanosecond); n != longestRun {
		t.Errorf("%d handoffs that take no time", n)
	}
	if !r.spent {
		t.Error("no yield window follows")
	}
}

// In the yield window after a run a poller of a hot lock asks once, and where
// somebody was seen the window outlasts that one's run.
func TestTheYieldWindowAfterALocalRun(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		most     time.Duration
		from, to time.Duration
	}{
		{firstRun, loneWindow, loneWindow},
		{rivalRun, rivalWindow, rivalWindow + windowJitter},
	} {
		h := newHand()
		r := &localRun{clock: h.now, most: c.most, spent: true}
		r.yield()
		if window := r.yields(); window < c.from || window > c.to {
			t.Errorf("after %v: a window of %v, want %v to %v", c.most, window, c.from, c.to)
		}
		h.pass(time.Second)
		if r.yield(); r.yields() != 0 {
			t.Error("a window without a run before it")
		}
	}
	if loneWindow <= hotPause || rivalWindow < rivalRun {
		t.Error("nobody else has the time to ask")
	}
}

// hand is a clock in the test's hand.
type hand struct{ at time.Duration }

func newHand() *hand { return &hand{100 * time.Hour} }

func (h *hand) now() time.Duration   { return h.at }
func (h *hand) pass(d time.Duration) { h.at += d }

func holdsNone(bson.RawValue, uuid.UUID) bool { return false }

func newView() *view { return &view{clock: newHand().now, holds: holdsNone} }

var errClosed = errors.New("closed")

// handQueues are queues on a hand's clock.
func handQueues(h *hand, rules relations.Rules) *Queues {
	return New(Config{Rules: rules, Now: h.now, Closing: make(chan struct{}), Closed: errClosed, Holds: holdsNone})
}

// The document whose _id is 1.
var (
	pinOfOne = engine.Pin{{Key: "_id", Value: bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}}}}
	keyOfOne = Key(pinOfOne)
)

// request is one that began long ago: pauses are long.
func request(tag string, h *hand) Request {
	return Request{Request: engine.Request{Tag: tag, ID: uuid.New()}, Exact: true, Begun: h.now() - time.Hour}
}

// image is of document 1.
func image(fence int64, now time.Time, entries ...engine.Entry) *engine.Image {
	return &engine.Image{Now: now, Lock: engine.Lock{Fence: fence, Entries: entries}}
}

func heldBy(tag string, fence int64, expires time.Time) engine.Entry {
	return engine.Entry{Tag: tag, ID: uuid.New(), Seq: fence, Fence: fence, Expires: expires}
}
