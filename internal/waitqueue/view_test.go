package waitqueue

import (
	"testing"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// A command that was sent after an image had come is executed later, whatever
// the server's clock and the document's fence say.
func TestALaterCommandsImageIsNewer(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(10_000_000)
	for _, c := range []struct {
		name  string
		fence int64
		now   time.Time
		newer bool // though it was sent before
	}{
		{"the clock was set back", 7, now.Add(-time.Minute), false},
		{"the fence was set back", 6, now.Add(time.Millisecond), false},
		{"the fence was set back, and is still behind after a while", 6, now.Add(2 * lately), true},
		{"nothing was", 8, now.Add(time.Millisecond), true},
	} {
		for _, later := range []bool{false, true} {
			v := newView()
			sent := v.clock()
			v.update(image(7, now, heldBy("write", 7, now.Add(time.Hour))), sent)
			if later {
				sent = v.taken + 1
			}
			v.update(image(c.fence, c.now), sent)
			if newer := len(v.image.Lock.Entries) == 0; newer != (c.newer || later) {
				t.Errorf("%s; sent later: %v; it is newer: %v", c.name, later, newer)
			}
		}
	}
}

// An entry that was released here is shown by an image that was on its way
// meanwhile; by a later one if a duplicate of its acquire has brought it back.
func TestAnEntryThatWasBroughtBackIsSeen(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(10_000_000)
	entry := heldBy("write", 7, now.Add(time.Hour))
	v := newView()
	sees := func(sent time.Duration) bool {
		v.update(image(7, now, entry), sent)
		return len(v.image.Lock.Entries) == 1
	}
	if !sees(v.clock()) {
		t.Error("the entry is not seen")
	}
	v.forget(departure{id: entry.ID})
	if sees(v.clock() + 1) {
		t.Error("it is seen though it is being released")
	}
	end := v.taken + 1
	v.forget(departure{id: entry.ID, over: true, end: end})
	if sees(end) {
		t.Error("it is seen by who asked before it was back")
	}
	if !sees(end + 1) {
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
		v := newView()
		v.update(image(8, now, holder, waiting), 0)
		before := v.news
		v.update(image(9, now, c.then...), 0)
		if news := v.news != before; news != c.news {
			t.Errorf("%s: it makes way: %v; want %v", c.name, news, c.news)
		}
	}
}

// Rivals are seen where none but others have the lock. Where nobody has it, a run of this process may grow.
func TestWhoIsARival(t *testing.T) {
	t.Parallel()
	now := time.UnixMilli(10_000_000)
	theirs, ours := heldBy("write", 7, now.Add(time.Hour)), heldBy("write", 8, now.Add(time.Hour))
	for name, c := range map[string]struct {
		entries []engine.Entry
		rivals  bool
	}{
		"another process has it":     {[]engine.Entry{theirs}, true},
		"this process has it, too":   {[]engine.Entry{theirs, ours}, false},
		"nobody has it":              {nil, false},
		"this process is leaving it": {[]engine.Entry{ours}, false},
	} {
		v := newView()
		if v.owns(ours.ID); len(c.entries) == 1 {
			v.forget(departure{id: ours.ID})
		}
		v.update(image(8, now, c.entries...), v.clock())
		if rivals := v.rivals != 0; rivals != c.rivals {
			t.Errorf("%s: rivals: %v", name, rivals)
		}
	}
}

// A lock has moved when somebody new holds it, or nobody. Those who come to wait
// behind a holder don't have its waiters ask more often.
func TestWhatMovesTheLock(t *testing.T) {
	t.Parallel()
	began := time.UnixMilli(1_000_000)
	image := func(fence int64, fences ...int64) *engine.Image {
		img := &engine.Image{Lock: engine.Lock{Fence: fence}, Now: began}
		for i, fence := range fences {
			img.Lock.Entries = append(img.Lock.Entries, engine.Entry{Tag: "write", ID: uuid.New(), Seq: int64(i), Fence: fence, Expires: began.Add(time.Hour)})
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
		v := newView()
		v.update(image(7, 7), 0)
		if moved := v.update(c.then, 0); moved != c.moved {
			t.Errorf("%s: it has moved: %v; want %v", c.name, moved, c.moved)
		}
	}
}
