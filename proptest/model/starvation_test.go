package model

import "testing"

// TestStarvationTwoTags compares the protocol's formula with the search, for
// every table of two tags and each of its tags.
func TestStarvationTwoTags(t *testing.T) {
	tables := twoTagTables()
	if testing.Short() {
		tables = sampled(tables, 40)
	}
	compareStarvation(t, tables, 3)
}

// TestStarvationThreeTags does the same for a sample of larger tables.
func TestStarvationThreeTags(t *testing.T) {
	const seed = 2
	t.Logf("seed %d", seed)
	compareStarvation(t, threeTagTables(pick(1, 4, 60), seed), 4)
}

func compareStarvation(t *testing.T, tables []Table, others int) {
	t.Helper()
	starve, refuse := 0, 0
	for _, table := range tables {
		for _, x := range table.Tags() {
			by := Starves(table, x)
			if got := waiterStarves(table, x, others); got != (len(by) > 0) {
				t.Errorf("%v: waiting %s starves: formula says %v, search says %v", table, x, by, got)
			}
			refusing := StarvesRefused(table, x)
			if got := requesterStarves(table, x, others); got != (len(refusing) > 0) {
				t.Errorf("%v: refused %s starves: formula says %v, search says %v", table, x, refusing, got)
			}
			starve += min(1, len(by))
			refuse += min(1, len(refusing))
		}
	}
	t.Logf("%d tables: a waiting tag starves in %d cases, a refused one in %d", len(tables), starve, refuse)
}
