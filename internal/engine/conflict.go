package engine

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
)

// longest is a bound of the times that an image's dates lead to: people may have written
// any date, and callers add to the time.
const longest = 100 * 365 * 24 * time.Hour

// InTheWay lists the live entries that block an arrival under tag (own is nil),
// or that block the waiting entry own. It also returns the longest time until
// enough of them have expired. The server makes the decision; this function
// explains it, from the image and with the image's clock.
func InTheWay(rules relations.Rules, img *Image, tag string, own *Entry) ([]Entry, time.Duration) {
	byTag := map[string][]Entry{}
	for _, other := range img.Lock.Entries {
		dead := !other.Expires.After(img.Now)
		self := own != nil && other.ID == own.ID
		later := own != nil && !other.Held() && other.Seq >= own.Seq
		if !dead && !self && !later {
			byTag[other.Tag] = append(byTag[other.Tag], other)
		}
	}
	effect := relations.Kind.Arriving
	if own != nil {
		effect = relations.Kind.Waiting
	}
	var blocking []Entry
	var free time.Time
	for _, other := range slices.Sorted(maps.Keys(byTag)) {
		entries := byTag[other]
		r := rules[tag][other]
		if _, known := rules[other]; !known {
			r.Kind = relations.Cooperative // unknown tags are respected
		}
		if effect(r.Kind) == relations.Ignored || len(entries) <= r.Allow {
			continue
		}
		blocking = append(blocking, entries...)
		slices.SortFunc(entries, func(a, b Entry) int { return a.Expires.Compare(b.Expires) })
		if t := entries[len(entries)-1-r.Allow].Expires; t.After(free) {
			free = t
		}
	}
	if len(blocking) == 0 {
		return blocking, 0
	}
	return blocking, min(free.Sub(img.Now), longest)
}

// Stuck is the image with those live entries that stay until the ones with the ids held
// are released: these themselves, and each waiting entry to which more of them than its
// relation allows count that are held or earlier. Nobody knows what an entry of an
// unknown tag waits for. What is in the way of an arrival here, it can't wait for.
func (e *Engine) Stuck(img *Image, held []uuid.UUID) *Image {
	stuck := &Image{ID: img.ID, Now: img.Now}
	if len(held) == 0 {
		return stuck
	}
	var waiting []Entry
	for _, other := range img.Lock.Entries {
		_, known := e.rules[other.Tag]
		switch {
		case !other.Expires.After(img.Now):
		case slices.Contains(held, other.ID):
			stuck.Lock.Entries = append(stuck.Lock.Entries, other)
		case known && !other.Held():
			waiting = append(waiting, other)
		}
	}
	slices.SortFunc(waiting, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) }) // none waits for a later one
	for _, w := range waiting {
		if blocking, _ := e.InTheWay(stuck, w.Tag, &w); len(blocking) > 0 {
			stuck.Lock.Entries = append(stuck.Lock.Entries, w)
		}
	}
	return stuck
}

// InTheWay is [InTheWay] by the engine's rules.
func (e *Engine) InTheWay(img *Image, tag string, own *Entry) ([]Entry, time.Duration) {
	return InTheWay(e.rules, img, tag, own)
}
