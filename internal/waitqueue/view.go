package waitqueue

import (
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// lately is how long an observation is taken to be still true.
const lately = time.Second

// view is a queue's knowledge of its document: the last image that any waiter was
// answered with, less the entries that this process has released since. It
// predicts the server's answer.
type view struct {
	clock func() time.Duration
	holds func(bson.RawValue, uuid.UUID) bool

	image   *engine.Image // or nil
	taken   time.Duration // when the image came
	changed time.Duration // when an image last showed a new holder, or none
	rivals  time.Duration // when an image last showed none but other processes' entries

	news       uint64                 // counts the entries that have left the document, or are about to
	departures []departure            // the last few entries that this process has released
	own        map[uuid.UUID]struct{} // entries that waiters of this queue were granted
}

// departure is an entry that this process takes out of the document.
type departure struct {
	id   uuid.UUID
	over bool          // its removal was answered,
	end  time.Duration // at this time
}

// update records the image of a command that was sent at that time or later, unless a later
// one is known. It reports whether the image shows a new holder, or none.
//
// A command that was sent after the last image had come was executed after it,
// whatever the fences and the server's clock say: both can be set back.
func (v *view) update(img *engine.Image, sent time.Duration) (changed bool) {
	if img == nil || v.image != nil && sent <= v.taken && older(img, v.image) {
		return false
	}
	now := v.clock()
	if changed = v.image == nil || lastGrant(v.image) != lastGrant(img); changed {
		v.changed = now
	}
	img = without(img, v.departing(sent)...)
	if v.image == nil || madeWay(v.image, img) {
		v.news++
	}
	v.image, v.taken = img, now
	v.keepOwn()
	if len(v.image.Lock.Entries) > 0 && !slices.ContainsFunc(v.image.Lock.Entries, v.mine) {
		v.rivals = now
	}
	return changed
}

// departing are the entries of departures that the image of a command that was sent at
// that time may still show: their removal was not answered before. A late duplicate of
// its acquire brings back an entry that is shown later.
func (v *view) departing(sent time.Duration) (ids []uuid.UUID) {
	for _, d := range v.departures {
		if !d.over || sent <= d.end {
			ids = append(ids, d.id)
		}
	}
	return ids
}

// madeWay says that an entry of the one image is not in the next.
func madeWay(from, to *engine.Image) bool {
	there := make(map[uuid.UUID]struct{}, len(to.Lock.Entries))
	for _, e := range to.Lock.Entries {
		there[e.ID] = struct{}{}
	}
	return slices.ContainsFunc(from.Lock.Entries, func(e engine.Entry) bool {
		_, stays := there[e.ID]
		return !stays
	})
}

// lastGrant is the fencing token of the newest holder. A waiting entry has none:
// new waiters do not change it.
func lastGrant(img *engine.Image) (fence int64) {
	for _, e := range img.Lock.Entries {
		fence = max(fence, e.Fence)
	}
	return fence
}

// older compares the document's fences first, because commands may be executed in
// another order than they read the clock. A fence that is still behind after a
// while was set back by an outside writer.
func older(a, b *engine.Image) bool {
	if a.Lock.Fence == b.Lock.Fence {
		return a.Now.Before(b.Now)
	}
	return a.Lock.Fence < b.Lock.Fence && a.Now.Before(b.Now.Add(lately))
}

// without is the lock of an image, less some entries.
func without(img *engine.Image, ids ...uuid.UUID) *engine.Image {
	return less(img, func(e engine.Entry) bool { return slices.Contains(ids, e.ID) })
}

// less is the lock of an image, less the entries of which that is true.
func less(img *engine.Image, out func(engine.Entry) bool) *engine.Image {
	seen := &engine.Image{ID: img.ID, Now: img.Now, Lock: img.Lock}
	seen.Lock.Entries = slices.DeleteFunc(slices.Clone(img.Lock.Entries), out)
	return seen
}

// aged is an image that came that time ago.
func aged(img *engine.Image, ago time.Duration) *engine.Image {
	if img == nil || ago == 0 {
		return img
	}
	aged := *img
	aged.Now = aged.Now.Add(ago)
	return &aged
}

// now is the image with the time that has passed since, or nil.
func (v *view) now() *engine.Image { return aged(v.image, v.clock()-v.taken) }

// owns notes an entry that was granted to this process.
func (v *view) owns(id uuid.UUID) {
	if v.own == nil {
		v.own = map[uuid.UUID]struct{}{}
	}
	v.own[id] = struct{}{}
}

// keepOwn forgets own entries that have left.
func (v *view) keepOwn() {
	if len(v.own) == 0 {
		return
	}
	shown := map[uuid.UUID]struct{}{}
	for _, e := range v.image.Lock.Entries {
		if _, own := v.own[e.ID]; own {
			shown[e.ID] = struct{}{}
		}
	}
	v.own = shown
}

// mine says of an entry that this process holds it.
func (v *view) mine(e engine.Entry) bool {
	_, own := v.own[e.ID]
	return own || v.holds(v.image.ID, e.ID)
}

// forget notes that an entry is being released, or was. An image that is
// already on its way may still show it.
func (v *view) forget(d departure) {
	const memory = 16
	if v.image != nil {
		v.image = without(v.image, d.id)
	}
	delete(v.own, d.id)
	v.news++
	v.departures = slices.DeleteFunc(v.departures, func(other departure) bool { return other.id == d.id })
	v.departures = append(v.departures, d)
	v.departures = v.departures[max(0, len(v.departures)-memory):]
}
