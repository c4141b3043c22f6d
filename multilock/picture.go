package multilock

import (
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
)

// lately is how long something that was seen is taken to be still so.
const lately = time.Second

// picture is what a line knows of its document: the last image that any of its
// waiters was answered with, without what was given back since. What the server
// would say is told from it.
type picture struct {
	leases *doclock.Leases

	image   *engine.Image // or nil
	taken   time.Time     // when it was, by this process's clock
	changed time.Time     // when it last showed a new holder
	rivals  time.Time     // when it last showed none but other processes' entries

	gone []uuid.UUID            // the last few entries that were given back
	own  map[uuid.UUID]struct{} // entries that waiters of this line were granted
}

// see takes in an image, and reports whether it tells how things are now.
// That is not so where a later one was seen; and of a whole one, that has no
// clock, it is not known.
func (p *picture) see(img *engine.Image) bool {
	whole := img != nil && img.Whole()
	if whole {
		img = p.dated(img)
	}
	if img == nil || p.image != nil && older(img, p.image) {
		return false
	}
	now := time.Now()
	if p.image == nil || lastGrant(p.image) != lastGrant(img) {
		p.changed = now
	}
	p.image, p.taken = without(img, p.gone...), now
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
	seen := &engine.Image{ID: img.ID, Now: img.Now, Lock: img.Lock}
	seen.Lock.Entries = slices.DeleteFunc(slices.Clone(img.Lock.Entries), func(e engine.Entry) bool { return slices.Contains(ids, e.ID) })
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
	return own || p.leases.Believed(e.ID)
}

// forget is told that an entry is being given back. An image may still show
// it that is already on its way.
func (p *picture) forget(id uuid.UUID) {
	const memory = 16
	if p.image != nil {
		p.image = without(p.image, id)
	}
	delete(p.own, id)
	if !slices.Contains(p.gone, id) {
		p.gone = append(p.gone, id)
		p.gone = p.gone[max(0, len(p.gone)-memory):]
	}
}
