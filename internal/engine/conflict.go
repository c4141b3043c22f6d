package engine

import (
	"maps"
	"slices"
	"time"

	"github.com/doclock/doclock/relations"
)

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
	return blocking, free.Sub(img.Now)
}

// InTheWay is [InTheWay] by the engine's rules.
func (e *Engine) InTheWay(img *Image, tag string, own *Entry) ([]Entry, time.Duration) {
	return InTheWay(e.rules, img, tag, own)
}
