package multilock

import (
	"slices"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/lease"
)

// downgrades implements [lease.Downgrades].
type downgrades struct{ *Locker }

var _ lease.Downgrades = downgrades{}

// Refused names the entries that an arrival under the tag would meet without the
// grant's own one. If the own entry must keep others out for longer, it is named
// too. A refusal that a repeat has found may name none: they have left since.
func (l downgrades) Refused(img *engine.Image, g engine.Grant, tag string) error {
	others := *img
	others.Lock.Entries = slices.DeleteFunc(slices.Clone(img.Lock.Entries), func(e engine.Entry) bool { return e.Tag == g.Tag && e.ID == g.ID })
	entries, free := l.engine.InTheWay(&others, tag, nil)
	if own, _ := img.Lock.Find(g.Tag, g.ID); own.Until.After(img.Now) {
		entries, free = append(entries, own), max(free, own.Until.Sub(img.Now))
	}
	return inTheWay(img, tag, entries, free)
}

// Unanswered has the entry removed by its id: it is one at most, whatever the
// number of attempts, since the lease's own entry is released.
func (l downgrades) Unanswered(pin engine.Pin, to engine.Request) {
	l.cleanup.add(pin, to.Tag, leftover{id: to.ID, entries: 1, until: time.Now().Add(l.cleanup.life(to))})
}
