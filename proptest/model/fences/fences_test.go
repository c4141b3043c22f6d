package fences

import (
	"maps"
	"math"
	"testing"

	"github.com/doclock/doclock/proptest/model/interleave"
)

// The worlds: client 0 has transactions, the others what the name says.
var (
	exclusive = config{programs: []program{fenced, locks}, slots: 1, calls: 1}
	faulty    = with(exclusive, func(c *config) { c.faults = 1 })
	days      = with(faulty, func(c *config) { c.days = 1 })
	elections = with(faulty, func(c *config) { c.elections = 1 })
	quitting  = with(faulty, func(c *config) { c.quits = 1 })
	two       = with(exclusive, func(c *config) { c.calls = 2 })
	slots     = with(two, func(c *config) { c.slots = 2 })
	breaking  = with(exclusive, func(c *config) { c.programs = []program{fenced, locks, breaks} })
	readers   = with(exclusive, func(c *config) {
		c.programs, c.shared = []program{fenced, locks, fenced}, [maxClients]bool{true, false, true}
	})
	deleting = with(readers, func(c *config) { c.programs = []program{fenced, locks, deletes} })
	joining  = with(readers, func(c *config) { c.programs = []program{fenced, locks, locks} })
)

func search(c config, most int) interleave.Report {
	return interleave.Changes(interleave.Terse(c), newWorld(&c), (*world).steps, (*world).check).Search(math.MaxInt, most)
}

func with(c config, change func(c *config)) config {
	change(&c)
	return c
}

// TestWorlds searches with all clauses: no property is violated.
func TestWorlds(t *testing.T) {
	t.Parallel()
	more := func(c *config) { c.faults++ }
	worlds := map[string]config{
		"exclusive": with(exclusive, more), "days": days, "elections": elections, "quitting": quitting, "breaking": with(breaking, more),
		"readers": readers, "deleting": deleting, "joining": joining, "two": with(two, more), "slots": with(slots, more),
	}
	if interleave.Proof() {
		for name, c := range maps.Clone(worlds) {
			worlds[name+", one more fault"] = with(c, more)
		}
	}
	var searches []func() interleave.Report
	for _, c := range worlds {
		searches = append(searches, func() interleave.Report { return search(c, interleave.Budget(5_000, 200_000)) })
	}
	interleave.Cover(t, searches)
}

// TestClauses leaves out one clause at a time, and shows that the search notices.
func TestClauses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		world    config
		without  Without
		property string
	}{
		{"stays until named", exclusive, Without{StaysUntilNamed: true}, "late"},
		{"pruned if named", joining, Without{PrunedIfNamed: true}, "late"},
		{"settled first", exclusive, Without{SettledFirst: true}, "late"},
		{"settle is fresh", days, Without{SettleIsFresh: true}, "late"},
		{"settle writes", exclusive, Without{SettleWrites: true}, "late"},
		{"settle inserts", exclusive, Without{SettleInserts: true}, "late"},
		{"settles all slots", slots, Without{SettlesAllSlots: true}, "late"},
		{"settle is majority", elections, Without{SettleIsMajority: true}, "told"},
		{"revoked is tested", exclusive, Without{RevokedIsTested: true}, "late"},
		{"fence is written", exclusive, Without{FenceIsWritten: true}, "late"},
		{"fence is of slot", slots, Without{FenceIsOfSlot: true}, "told"},
		{"fence is of grant", readers, Without{FenceIsOfGrant: true}, "waits"},
		{"gate", two, Without{Gate: true}, "told"},
		{"remarked alone", slots, Without{RemarkedAlone: true}, "late"},
		{"mark is answered", with(slots, func(c *config) { c.faults = 1 }), Without{MarkIsAnswered: true}, "late"},
		{"number first", faulty, Without{NumberFirst: true}, "told"},
		{"old settle is none", days, Without{OldSettleIsNone: true}, "told"},
		{"runs again settled", faulty, Without{RunsAgainSettled: true}, "told"},
		{"decided before end", exclusive, Without{DecidedBeforeEnd: true}, "late"},
		{"unknown keeps", quitting, Without{UnknownKeeps: true}, "late"},
		{"break names", breaking, Without{BreakNames: true}, "late"},
		{"delete is alone", deleting, Without{DeleteIsAlone: true}, "late"},
		{"gone is read", elections, Without{GoneIsRead: true}, "lost"},
		{"ends late first", quitting, Without{EndsLateFirst: true}, "open"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.world.without = c.without
			r := search(c.world, 600_000)
			if r.Broken.Property != c.property {
				t.Errorf("not %s: %v", c.property, r)
			}
			t.Logf("%v", r)
		})
	}
}
