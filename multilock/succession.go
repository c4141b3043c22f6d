package multilock

import (
	"slices"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
)

// succession is the Locker as its leases see it: who comes after them.
type succession struct{ *Locker }

// Next implements [lease.Succession].
func (l succession) Next(g engine.Grant) *engine.Successor { return l.queues.Next(g) }

// Ended implements [lease.Succession]. The waiters and the claims learn how the lock
// was left, and the clean-up removes what attempts may still make.
func (l succession) Ended(e lease.Ending) {
	switch e.How {
	case lease.Released:
		l.queues.Released(e.Grant)
		l.idle.released()
	case lease.HandedOver:
		l.queues.HandedOver(e.Grant.ID, e.Answer)
	case lease.Detached:
		l.queues.Detached(e.Grant)
	}
	for _, u := range e.Unanswered {
		l.cleanup.discard(e.Grant.Pin, u.Request, unsure{u.Attempts, u.Last}, false, nil)
	}
}

// Refused names the entries that an arrival under the tag would meet without the
// grant's own one. If the own entry must keep others out for longer, it is named
// too. A refusal that a repeat has found may name none: they have left since.
func (l succession) Refused(img *engine.Image, g engine.Grant, tag string) error {
	others := *img
	others.Lock.Entries = slices.DeleteFunc(slices.Clone(img.Lock.Entries), func(e engine.Entry) bool { return e.Tag == g.Tag && e.ID == g.ID })
	entries, free := l.engine.InTheWay(&others, tag, nil)
	if own, _ := img.Lock.Find(g.Tag, g.ID); own.Until.After(img.Now) {
		entries, free = append(entries, own), max(free, own.Until.Sub(img.Now))
	}
	return l.inTheWay(img, tag, entries, free, &engine.Image{})
}

// Lost implements [lease.Succession].
func (l succession) Lost(loss lease.Loss) error { return l.lost(loss) }
