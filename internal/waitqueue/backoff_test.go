package waitqueue

import (
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
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
		d := Pause(waited, waited, free, 0)
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

// It grows with the wait: with no expiry in sight, the shortest after ten times
// the wait is longer than the longest now.
func TestPauseGrowsWithTheWait(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		waited := time.Duration(rapid.Int64Range(int64(16*time.Millisecond), int64(800*time.Millisecond)).Draw(t, "waited"))
		if now, later := Pause(waited, waited, 0, 0), Pause(10*waited, 10*waited, 0, 0); later <= now {
			t.Fatalf("after %v it is %v, after %v only %v", waited, now, 10*waited, later)
		}
	})
}

// The delay that polling adds stays a small fraction of the wait, and the
// number of polls is small too.
func TestPauseInASimulatedWaitOf30Seconds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const wait = 30 * time.Second
		answer := time.Duration(rapid.Int64Range(0, int64(20*time.Millisecond)).Draw(t, "time to answer"))
		renewed := time.Duration(rapid.Int64Range(int64(100*time.Millisecond), int64(10*time.Second)).Draw(t, "the holder's time"))
		polls := 0
		for waited := time.Duration(0); waited < wait; polls++ {
			d := Pause(waited, waited, renewed, 0)
			if added := d - 3*time.Millisecond; added > waited*3/16 {
				t.Fatalf("after %v it adds %v", waited, d)
			}
			waited += answer + d
		}
		least := min(renewed*2/3, time.Second)
		if most := max(120, 2*int(wait/least)); polls > most {
			t.Fatalf("%d polls in %v, more than %d", polls, wait, most)
		}
	})
}

// Waiters that were refused together don't come back together.
func TestPauseJitters(t *testing.T) {
	t.Parallel()
	for _, free := range []time.Duration{0, 10 * time.Millisecond} {
		shortest, longest := time.Hour, time.Duration(0)
		for range 200 {
			d := Pause(time.Second, time.Second, free, 0)
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
		near, far := Pause(time.Second, time.Second, 0, 0), Pause(time.Second, time.Second, 0, ahead)
		if 3*far < (1+ahead)*near {
			t.Fatalf("%v with nobody ahead, %v with %d", near, far, ahead)
		}
		if d := Pause(time.Second, time.Second, 50*time.Millisecond, ahead); d > 50*time.Millisecond+shortestPause {
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
	d := newQueue(relations.Fair(), h.now, new(int), noLeases{}, "one")
	d.view.update(image(1, now, heldBy("write", 1, now.Add(time.Hour))), 0)
	place := Place{Seq: 2, Confirm: time.Hour}
	for _, c := range []struct {
		name           string
		place          Place
		unchanged      time.Duration
		least, longest time.Duration
	}{
		{"a place, and the queue moves", place, 0, shortestPause / 2, 5 * shortestPause},
		{"a place, and nothing moves", place, time.Hour, longestPause / 2, longestPause * 3 / 2},
		{"no place, and the lock goes round", Place{}, 0, longestPause / 2, longestPause * 3 / 2},
	} {
		w := &Waiter{Request: request("write", h), queue: d, place: c.place, asked: h.now()}
		d.poller, d.view.changed = w, h.now()-c.unchanged
		if pause := d.pause(w); pause < c.least || pause > c.longest {
			t.Errorf("%s: it pauses for %v, want %v to %v", c.name, pause, c.least, c.longest)
		}
	}
}
