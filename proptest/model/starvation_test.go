package model

import "testing"

// TestStarvationTwoTags compares the protocol's formula with the search, for
// all rules of two tags and each of the tags.
func TestStarvationTwoTags(t *testing.T) {
	ruleSets := twoTagRules()
	if testing.Short() {
		ruleSets = sampled(ruleSets, 40)
	}
	compareStarvation(t, ruleSets, 3)
}

// TestStarvationThreeTags does the same for a sample of larger rules.
func TestStarvationThreeTags(t *testing.T) {
	const seed = 2
	t.Logf("seed %d", seed)
	compareStarvation(t, threeTagRules(pick(1, 4, 60), seed), 4)
}

func compareStarvation(t *testing.T, ruleSets []Rules, others int) {
	t.Helper()
	starve, refuse := 0, 0
	for _, rules := range ruleSets {
		for _, x := range rules.Tags() {
			by := Starves(rules, x)
			if got := waiterStarves(rules, x, others); got != (len(by) > 0) {
				t.Errorf("%v: waiting %s starves: formula says %v, search says %v", rules, x, by, got)
			}
			refusing := StarvesRefused(rules, x)
			if got := requesterStarves(rules, x, others); got != (len(refusing) > 0) {
				t.Errorf("%v: refused %s starves: formula says %v, search says %v", rules, x, refusing, got)
			}
			starve += min(1, len(by))
			refuse += min(1, len(refusing))
		}
	}
	t.Logf("%d ruleSets: a waiting tag starves in %d cases, a refused one in %d", len(ruleSets), starve, refuse)
}
