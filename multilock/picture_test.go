package multilock

import (
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
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
			p := picture{leases: &doclock.Leases{}}
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
	p := picture{leases: &doclock.Leases{}}
	if p.see(&engine.Image{Lock: entry(7)}, time.Time{}); p.image != nil {
		t.Error("a picture is made of an image whose time is not known")
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
		p := picture{leases: &doclock.Leases{}}
		p.see(image(7, 7), time.Time{})
		p.changed = time.Time{}
		p.see(c.then, time.Time{})
		if moved := !p.changed.IsZero(); moved != c.moved {
			t.Errorf("%s: it has moved: %v; want %v", c.name, moved, c.moved)
		}
	}
}
