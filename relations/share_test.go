package relations

import (
	"strings"
	"testing"
)

// sharing is a state of the document, and the number of holders of the shared
// tag that have no entry of their own.
type sharing struct {
	state
	joined int
}

// holders counts the holders of y, with or without an entry.
func (s sharing) holders(y, shared int) int {
	n := int(s.held[y])
	if y == shared {
		n += s.joined
	}
	return n
}

// betrayed reports whether a holder that was just let in under x, and has
// counted itself already, is beside more holders than x tolerates.
func (t *table) betrayed(s sharing, x, shared int) bool {
	for y := range t.tags {
		others := s.holders(y, shared)
		if y == x {
			others--
		}
		if rel := t.rel[x][y]; rel.Kind != None && others > rel.Allow {
			return true
		}
	}
	return false
}

// sharingBetrays searches all states for a holder that is let in against the
// rules, if holders of the tag may join its entries at any time.
func (t *table) sharingBetrays(shared, limit int) bool {
	seen := map[sharing]bool{{}: true}
	todo := []sharing{{}}
	for len(todo) > 0 {
		s := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		var next []sharing
		add := func(st state, joined, let int) bool {
			n := sharing{st, joined}
			next = append(next, n)
			return let >= 0 && t.betrayed(n, let, shared)
		}
		for x := range t.tags {
			if st, v := t.arrive(s.state, x); v != refused && s.live(x, len(s.waiting)) < limit {
				let := -1
				if v == granted {
					let = x
				}
				if add(st, s.joined, let) {
					return true
				}
			}
			if s.held[x] > 0 && (x != shared || s.joined == 0) { // the last one releases
				st := s.state
				st.held[x]--
				add(st, s.joined, -1)
			}
		}
		for i := range len(s.waiting) {
			if x := int(s.waiting[i]); !t.blocked(s.state, i) {
				st := s.without(i)
				st.held[x]++
				if add(st, s.joined, x) {
					return true
				}
			}
		}
		if s.held[shared] > 0 && s.joined < 2 && add(s.state, s.joined+1, shared) {
			return true
		}
		if s.joined > 0 {
			add(s.state, s.joined-1, -1)
		}
		for _, n := range next {
			if !seen[n] {
				seen[n] = true
				todo = append(todo, n)
			}
		}
	}
	return false
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
	for tag, want := range map[string][]string{
		"slot":  nil,
		"write": {`it respects itself (cooperative)`},
		"audit": {`it respects "read" (cooperative, allow 1), which ignores it`, `its relation to "read" counts entries (cooperative, allow 1)`},
		"read":  {`the relation of "audit" to it counts entries (cooperative, allow 1)`},
	} {
		rules := ReadPreferring()
		rules["audit"] = map[string]Relation{"read": {Kind: Cooperative, Allow: 1}}
		rules["slot"] = map[string]Relation{"write": {Kind: Assertive}}
		rules["write"]["slot"] = Relation{Kind: Cooperative}
		err := rules.CheckShareable(tag)
		if (err == nil) != (want == nil) {
			t.Errorf("%s: %v", tag, err)
		}
		for _, reason := range want {
			if !strings.Contains(err.Error(), reason) {
				t.Errorf("%s: %v; should say %s", tag, err, reason)
			}
		}
	}
}
