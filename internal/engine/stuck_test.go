package engine

import (
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// An acquire waits for itself if it isn't granted after all others have done what they
// can: those who hold have released, and those who wait were granted, and have released.
// Beside random rules and images, Stuck says the same.
func TestStuckIsWhatNobodyElseCanEnd(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rules := anyRules(t)
		e := &Engine{rules: rules}
		for range 20 {
			img, own := anyImage(t), (*Entry)(nil)
			tag := rapid.SampledFrom(rules.Tags()).Draw(t, "tag")
			if len(img.Lock.Entries) > 0 && rapid.IntRange(0, 2).Draw(t, "it waits in the document") == 0 {
				own = &img.Lock.Entries[0]
				own.Tag, own.Fence = tag, 0
			}
			var held []uuid.UUID
			for _, other := range img.Lock.Entries {
				if other.Held() && rapid.Bool().Draw(t, "the context's") {
					held = append(held, other.ID)
				}
			}
			entries, _ := e.InTheWay(e.Stuck(img, held), tag, own)
			if got, want := len(entries) > 0, waitsForItself(rules, img, held, tag, own); got != want {
				t.Fatalf("under %v, %q (%+v) in %+v of %v: %t, want %t", rules, tag, own, img.Lock.Entries, held, got, want)
			}
		}
	})
}

// waitsForItself has everybody do what they can, and then looks. An entry's tags are
// counted here without the library's own functions.
func waitsForItself(rules relations.Rules, img *Image, held []uuid.UUID, tag string, own *Entry) bool {
	there := slices.DeleteFunc(slices.Clone(img.Lock.Entries), func(e Entry) bool { return !img.Now.Before(e.Expires) })
	blocked := func(tag string, by *Entry) bool {
		count := map[string]int{}
		for _, other := range there {
			if by == nil || other.ID != by.ID && (other.Fence != 0 || other.Seq < by.Seq) {
				count[other.Tag]++
			}
		}
		for other, n := range count {
			relation, known := rules[tag][other], rules[other] != nil
			if !known || relation.Kind != relations.None && n > relation.Allow {
				return true
			}
		}
		return false
	}
	for {
		leaves := slices.IndexFunc(there, func(e Entry) bool {
			unknown := rules[e.Tag] == nil
			if e.Fence != 0 || unknown {
				return !slices.Contains(held, e.ID)
			}
			return (own == nil || e.ID != own.ID) && !blocked(e.Tag, &e)
		})
		if leaves < 0 {
			return blocked(tag, own)
		}
		there = slices.Delete(there, leaves, leaves+1)
	}
}

var threeTags = []string{"a", "b", "c"}

func anyRules(t *rapid.T) relations.Rules {
	rules := relations.Rules{}
	for _, x := range threeTags {
		rules[x] = map[string]relations.Relation{}
		for _, y := range threeTags {
			r := relations.Relation{Kind: relations.Kind(rapid.IntRange(0, 2).Draw(t, x+" to "+y))}
			if r.Kind != relations.None {
				r.Allow = max(0, rapid.IntRange(-4, 2).Draw(t, "allow"))
			}
			rules[x][y] = r
		}
	}
	return rules
}

// anyImage draws entries of these tags and of one that the rules don't have.
func anyImage(t *rapid.T) *Image {
	img := &Image{Now: epoch}
	for range rapid.IntRange(0, 7).Draw(t, "entries") {
		seq := int64(len(img.Lock.Entries)) + 1
		e := Entry{Tag: rapid.SampledFrom(append([]string{"unknown"}, threeTags...)).Draw(t, "of"), ID: uuid.UUID{byte(seq)}, Seq: seq, Expires: epoch.Add(time.Second)}
		if rapid.IntRange(0, 2).Draw(t, "held") == 0 {
			e.Fence = seq
		}
		if rapid.IntRange(0, 9).Draw(t, "expired") == 0 {
			e.Expires = epoch
		}
		img.Lock.Entries = append(img.Lock.Entries, e)
	}
	img.Lock.Entries = rapid.Permutation(img.Lock.Entries).Draw(t, "order")
	return img
}
