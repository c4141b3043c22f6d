package relations

import (
	"fmt"
	"testing"
)

// sharing is a state of the document, and the number of holders of the shared
// tag that have no entry of their own.
type sharing struct {
	state
	joined int
}

// betrayed reports whether a holder that was just let in under x, and has
// counted itself already, is beside more holders than x tolerates.
func (t *table) betrayed(s sharing, x, shared int) bool {
	holders := s.held
	holders[shared] += uint8(s.joined)
	holders[x]--
	for y := range t.tags {
		if rel := t.rel[x][y]; rel.Kind != None && int(holders[y]) > rel.Allow {
			return true
		}
	}
	return false
}

// sharingBetrays searches all states for a holder that is let in against the
// rules, if holders of the tag may join its entries at any time.
func (t *table) sharingBetrays(shared, limit int) (betrayed bool) {
	seen, todo := map[sharing]bool{{}: true}, []sharing{{}}
	reach := func(st state, joined int) sharing {
		n := sharing{st, joined}
		if !seen[n] {
			seen[n] = true
			todo = append(todo, n)
		}
		return n
	}
	letIn := func(x int, st state, joined int) {
		betrayed = t.betrayed(reach(st, joined), x, shared) || betrayed
	}
	for len(todo) > 0 && !betrayed {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for x := range t.tags {
			switch st, v := t.arrive(s.state, x); {
			case v == refused || s.live(x, len(s.waiting)) >= limit:
			case v == granted:
				letIn(x, st, s.joined)
			default:
				reach(st, s.joined)
			}
			if s.held[x] > 0 && (x != shared || s.joined == 0) { // the last one releases
				st := s.state
				st.held[x]--
				reach(st, s.joined)
			}
		}
		for i := range len(s.waiting) {
			if x := int(s.waiting[i]); !t.blocked(s.state, i) {
				st := s.without(i)
				st.held[x]++
				letIn(x, st, s.joined)
			}
		}
		if s.held[shared] > 0 && s.joined < 2 {
			letIn(shared, s.state, s.joined+1)
		}
		if s.joined > 0 {
			reach(s.state, s.joined-1)
		}
	}
	return betrayed
}

// Rule 21: if a tag is shareable, no holder is let in against the rules. If no
// relation counts, the tag is shareable whenever that is so.
func TestRule21SharingIsSound(t *testing.T) {
	shareable, not := 0, 0
	check := func(tab *table, limit int, exact bool) {
		rules := tab.rules()
		for tag := range tab.tags {
			refusal := rules.CheckShareable(name(tag))
			switch betrays := tab.sharingBetrays(tag, limit); {
			case refusal == nil && betrays:
				t.Fatalf("%v: sharing %q lets a holder in against the rules", tab, name(tag))
			case exact && refusal != nil && !betrays:
				t.Fatalf("%v: sharing %q is refused (%v), and does no harm", tab, name(tag), refusal)
			case refusal == nil:
				shareable++
			default:
				not++
			}
		}
	}
	allTables(2, upToAllow(1), func(tab *table) { check(tab, 3, false) })
	allTables(2, upToAllow(0), func(tab *table) { check(tab, 2, true) })
	allTables(3, upToAllow(0), func(tab *table) {
		if tab.isFirstOfItsPermutations() {
			check(tab, 2, true)
		}
	})
	if shareable < 30 || not < 500 {
		t.Errorf("%d shareable tags and %d others: too few", shareable, not)
	}
	t.Logf("%d shareable tags, %d others", shareable, not)
}

func TestShareableSaysWhyNot(t *testing.T) {
	rules := ReadPreferring()
	rules["audit"] = map[string]Relation{"read": {Kind: Cooperative}}
	rules["slot"] = map[string]Relation{"pool": {Kind: Assertive, Allow: 1}}
	rules["pool"] = map[string]Relation{"slot": {Kind: Assertive}}
	for tag, want := range map[string]string{
		"read":  "<nil>",
		"write": `it respects itself (cooperative)`,
		"audit": `it respects "read" (cooperative), which ignores it`,
		"slot":  `entries count between it and "pool" (assertive, allow 1; back: assertive)`,
	} {
		if err := rules.CheckShareable(tag); fmt.Sprint(err) != want {
			t.Errorf("%s: %v", tag, err)
		}
	}
}
