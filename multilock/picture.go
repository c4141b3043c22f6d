package multilock

import (
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
	"github.com/google/uuid"
)

// lately is how long something that was seen is taken to be still so.
const lately = time.Second

// picture is what a line knows of its document: the last image that any of its
// waiters was answered with, without what was given back since. What the server
// would say is told from it.
type picture struct {
	leases *lease.Holds

	image   *engine.Image // or nil
	taken   time.Time     // when it was, by this process's clock
	changed time.Time     // when it last showed a new holder
	rivals  time.Time     // when it last showed none but other processes' entries

	news uint64                 // counts what has made way: entries that are gone from the document, or leave it
	gone []departure            // the last few entries that were given back
	own  map[uuid.UUID]struct{} // entries that waiters of this line were granted
}

// departure is an entry that this process takes out of the document.
type departure struct {
	id  uuid.UUID
	end time.Time // when its removal was answered; zero before
}

// see takes in the image of a command that was sent at that time or later, and
// reports whether it tells how things are now. That is not so where a later one
// was seen; and of a whole one, that has no clock, it is not known.
//
// A command that was sent after the last image had come was executed after it,
// whatever the numbers and the server's clock say: both can be set back.
func (p *picture) see(img *engine.Image, sent time.Time) bool {
	whole := img != nil && img.Whole()
	if whole {
		img = p.dated(img)
	}
	if img == nil || p.image != nil && !sent.After(p.taken) && older(img, p.image) {
		return false
	}
	now := time.Now()
	if p.image == nil || lastGrant(p.image) != lastGrant(img) {
		p.changed = now
	}
	img = without(img, p.leaving(sent)...)
	if p.image == nil || madeWay(p.image, img) {
		p.news++
	}
	p.image, p.taken = img, now
	p.keepOwn()
	if len(p.image.Lock.Entries) > 0 && !slices.ContainsFunc(p.image.Lock.Entries, p.mine) {
		p.rivals = now
	}
	return !whole
}

// dated is a whole image with the picture's clock, if its number says that it
// is later than the picture; or nil.
func (p *picture) dated(img *engine.Image) *engine.Image {
	if p.image == nil || img.Lock.Fence <= p.image.Lock.Fence {
		return nil
	}
	dated := *img
	dated.Now = p.now().Now
	return &dated
}

// leaving are the entries that the image of a command that was sent at that
// time may show though they are gone: their removal was not answered before. One
// that is shown later was brought back, by a late duplicate of its acquire.
func (p *picture) leaving(sent time.Time) (ids []uuid.UUID) {
	for _, d := range p.gone {
		if d.end.IsZero() || !sent.After(d.end) {
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

// lastGrant is the token of the newest holder. Who only waits has none: however
// many come to wait, the lock has not moved.
func lastGrant(img *engine.Image) (token int64) {
	for _, e := range img.Lock.Entries {
		token = max(token, e.Fence)
	}
	return token
}

// older goes by the document's last number first: commands are executed in
// another order than they read the clock. A number that is still behind after
// a while was set back by a stranger.
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

// now is the image with the time that has passed since, or nil.
func (p *picture) now() *engine.Image {
	if p.image == nil {
		return nil
	}
	aged := *p.image
	aged.Now = aged.Now.Add(time.Since(p.taken))
	return &aged
}

// owns is told of an entry that was granted here.
func (p *picture) owns(id uuid.UUID) {
	if p.own == nil {
		p.own = map[uuid.UUID]struct{}{}
	}
	p.own[id] = struct{}{}
}

// keepOwn drops own entries that are gone.
func (p *picture) keepOwn() {
	if len(p.own) == 0 {
		return
	}
	shown := map[uuid.UUID]struct{}{}
	for _, e := range p.image.Lock.Entries {
		if _, own := p.own[e.ID]; own {
			shown[e.ID] = struct{}{}
		}
	}
	p.own = shown
}

// mine says of an entry that this process holds it.
func (p *picture) mine(e engine.Entry) bool {
	_, own := p.own[e.ID]
	return own || p.leases.Valid(e.ID)
}

// forget is told that an entry is being given back; its end is zero until that
// was answered. An image may still show it that is already on its way.
func (p *picture) forget(id uuid.UUID, end time.Time) {
	const memory = 16
	if p.image != nil {
		p.image = without(p.image, id)
	}
	delete(p.own, id)
	p.news++
	p.gone = slices.DeleteFunc(p.gone, func(d departure) bool { return d.id == id })
	p.gone = append(p.gone, departure{id, end})
	p.gone = p.gone[max(0, len(p.gone)-memory):]
}
