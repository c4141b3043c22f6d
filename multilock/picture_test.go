package multilock

import (
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
)

// A whole image has no clock, and may be a retried command's, as old as the
// first execution. It changes the picture only if its number is higher, and
// says nothing of how things are now.
func TestTheClockOfAWholeImage(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(1_000_000)
	entry := func(fence int64) engine.Lock {
		return engine.Lock{Fence: fence, Entries: []engine.Entry{{Tag: "write", ID: uuid.New(), Fence: fence, Expires: began.Add(time.Hour)}}}
	}
	for _, c := range []struct {
		name  string
		fence int64
		now   time.Time
		taken bool // into the picture
		fresh bool
	}{
		{"dated, later", 8, began.Add(time.Second), true, true},
		{"dated, of the same number", 7, began.Add(time.Second), true, true},
		{"dated, older", 6, began.Add(-time.Second), false, false},
		{"whole, later", 8, time.Time{}, true, false},
		{"whole, of the same number", 7, time.Time{}, false, false},
		{"whole, older", 6, time.Time{}, false, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := picture{leases: &lease.Holds{}}
			p.see(&engine.Image{Lock: entry(7), Now: began}, time.Time{})
			img := &engine.Image{Lock: entry(c.fence), Now: c.now}
			if fresh := p.see(img, time.Time{}); fresh != c.fresh {
				t.Errorf("it says of now: %v; want %v", fresh, c.fresh)
			}
			if taken := p.image.Lock.Entries[0].ID == img.Lock.Entries[0].ID; taken != c.taken {
				t.Errorf("it is taken: %v; want %v", taken, c.taken)
			}
			if now := p.now().Now; now.Before(began) || now.After(began.Add(time.Minute)) {
				t.Errorf("the picture is of %v, and began at %v", now, began)
			}
		})
	}
	p := picture{leases: &lease.Holds{}}
	if p.see(&engine.Image{Lock: entry(7)}, time.Time{}); p.image != nil {
		t.Error("a picture is made of an image whose time is not known")
	}
}

// A command that was sent after an image had come is executed later, whatever
// the server's clock and the document's number say.
func TestALaterCommandsImageIsNewer(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(10_000_000)
	for _, c := range []struct {
		name   string
		number int64
		now    time.Time
		newer  bool // though it was sent before
	}{
		{"the clock was set back", 7, now.Add(-time.Minute), false},
		{"the number was set back", 6, now.Add(time.Millisecond), false},
		{"the number was set back, and is still behind after a while", 6, now.Add(2 * lately), true},
		{"nothing was", 8, now.Add(time.Millisecond), true},
	} {
		for _, later := range []bool{false, true} {
			p := picture{leases: &lease.Holds{}}
			sent := time.Now()
			p.see(image(7, now, heldBy("write", 7, now.Add(time.Hour))), sent)
			if later {
				sent = p.taken.Add(1)
			}
			p.see(image(c.number, c.now), sent)
			if newer := len(p.image.Lock.Entries) == 0; newer != (c.newer || later) {
				t.Errorf("%s; sent later: %v; it is newer: %v", c.name, later, newer)
			}
		}
	}
}

// An entry that was given back here is shown by an image that was on its way
// meanwhile; by a later one if a duplicate of its acquire has brought it back.
func TestAnEntryThatWasBroughtBackIsSeen(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(10_000_000)
	entry := heldBy("write", 7, now.Add(time.Hour))
	p := picture{leases: &lease.Holds{}}
	sees := func(sent time.Time) bool {
		p.see(image(7, now, entry), sent)
		return len(p.image.Lock.Entries) == 1
	}
	began := time.Now()
	if !sees(began) {
		t.Error("the entry is not seen")
	}
	p.forget(entry.ID, time.Time{})
	if sees(time.Now()) {
		t.Error("it is seen though it is being given back")
	}
	end := p.taken.Add(1)
	p.forget(entry.ID, end)
	if sees(end) {
		t.Error("it is seen by who asked before it was back")
	}
	if !sees(end.Add(1)) {
		t.Error("it is not seen though it was brought back")
	}
}

// What makes way is an entry that is gone; who comes, or is granted, doesn't.
func TestWhatMakesWay(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(10_000_000)
	holder, waiting := heldBy("write", 7, now.Add(time.Hour)), heldBy("write", 8, now.Add(time.Hour))
	waiting.Fence = 0
	granted := waiting
	granted.Fence = 9
	for _, c := range []struct {
		name string
		then []engine.Entry
		news bool
	}{
		{"nothing happened", []engine.Entry{holder, waiting}, false},
		{"somebody came", []engine.Entry{holder, waiting, heldBy("read", 9, now)}, false},
		{"who waited was granted", []engine.Entry{holder, granted}, false},
		{"the holder left", []engine.Entry{granted}, true},
		{"who waited gave up", []engine.Entry{holder}, true},
	} {
		p := picture{leases: &lease.Holds{}}
		p.see(image(8, now, holder, waiting), time.Time{})
		before := p.news
		p.see(image(9, now, c.then...), time.Time{})
		if news := p.news != before; news != c.news {
			t.Errorf("%s: it makes way: %v; want %v", c.name, news, c.news)
		}
	}
}

// A lock has moved when somebody new holds it, or nobody. Those who come to wait
// behind a holder don't have its waiters ask more often.
func TestWhatMovesTheLock(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(1_000_000)
	image := func(number int64, tokens ...int64) *engine.Image {
		img := &engine.Image{Lock: engine.Lock{Fence: number}, Now: began}
		for i, token := range tokens {
			img.Lock.Entries = append(img.Lock.Entries, engine.Entry{Tag: "write", ID: uuid.New(), Seq: int64(i), Fence: token, Expires: began.Add(time.Hour)})
		}
		return img
	}
	const waiting = 0
	for _, c := range []struct {
		name  string
		then  *engine.Image
		moved bool
	}{
		{"nothing happened", image(7, 7), false},
		{"others have come to wait", image(9, 7, waiting, waiting), false},
		{"another one holds it", image(8, 8), true},
		{"nobody holds it", image(7), true},
	} {
		p := picture{leases: &lease.Holds{}}
		p.see(image(7, 7), time.Time{})
		p.changed = time.Time{}
		p.see(c.then, time.Time{})
		if moved := !p.changed.IsZero(); moved != c.moved {
			t.Errorf("%s: it has moved: %v; want %v", c.name, moved, c.moved)
		}
	}
}
