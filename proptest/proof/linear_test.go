package proof

import (
	"testing"
	"time"

	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
)

const millisecond = int64(time.Millisecond)

func command(kind, id string, sent, answered, now, fence int64, entries ...history.Entry) history.Command {
	return history.Command{
		Kind: kind, Document: "d", Tag: "write", ID: id, Sent: sent * millisecond, Answered: answered * millisecond, Matched: true,
		Image: &history.Image{Now: now, Fence: fence, Entries: entries},
	}
}

func bare(kind, id string, fence, sent, answered int64, matched bool) history.Command {
	return history.Command{Kind: kind, Document: "d", Tag: "write", ID: id, Fence: fence, Sent: sent * millisecond, Answered: answered * millisecond, Matched: matched}
}

func held(id string, seq, fence, expires int64) history.Entry {
	return history.Entry{Tag: "write", ID: id, Seq: seq, Fence: fence, Since: seq, Expires: expires}
}

func inherits(c history.Command) history.Command {
	c.Handed, c.Inherits = true, true
	return c
}

func TestLinearizable(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	a, b := held("a", 1010, 1010, 1110), held("b", 1020, 1020, 1120)
	join := command(history.CommandAcquire, "a", 1009, 1011, 1010, 1010, a)
	conflict := command(history.CommandAcquire, "b", 1012, 1014, 1013, 1010, a)
	joinB := command(history.CommandAcquire, "b", 1019, 1021, 1020, 1020, b)
	raised := command(history.CommandRead, "", 1030, 1032, 1031, 1025)
	claim := history.Command{Kind: history.CommandAcquire, Tag: "write", ID: "c", Sent: 1024 * millisecond}
	nowhere := claim // answered before its repeat was executed
	nowhere.Sent, nowhere.Answered = 1013*millisecond, 1014*millisecond
	missing := nowhere
	missing.Document = "d"
	elsewhere := join
	elsewhere.Document = "e"
	repeated := history.Command{Kind: history.CommandAcquire, Tag: "write", ID: "a", Sent: 1009 * millisecond, Ghost: true}
	again := nowhere
	again.Answered, again.Ghost = 0, true
	late := func(c history.Command) history.Command { c.Answered, c.Image, c.Matched = 0, nil, false; return c }
	for name, test := range map[string]struct {
		ok       bool
		commands []history.Command
	}{
		"granted, refused":                     {true, []history.Command{join, conflict}},
		"refused before it was granted":        {false, []history.Command{join, command(history.CommandAcquire, "b", 1005, 1007, 1006, 1010, a)}},
		"refused meanwhile":                    {true, []history.Command{join, command(history.CommandAcquire, "b", 1008, 1014, 1013, 1010, a)}},
		"granted beside another":               {false, []history.Command{join, command(history.CommandAcquire, "b", 1019, 1021, 1020, 1020, a, b)}},
		"granted in place of another":          {false, []history.Command{join, joinB}},
		"granted after the release":            {true, []history.Command{join, bare(history.CommandRelease, "a", 0, 1015, 1017, true), joinB}},
		"granted before the release":           {false, []history.Command{join, bare(history.CommandRelease, "a", 0, 1025, 1027, true), joinB}},
		"released by a command without answer": {true, []history.Command{join, late(bare(history.CommandRelease, "a", 0, 1015, 0, true)), joinB}},
		"without answer, and sent too late":    {false, []history.Command{join, late(bare(history.CommandRelease, "a", 0, 1025, 0, true)), joinB}},
		"granted by a command without answer":  {true, []history.Command{late(join), conflict}},
		"there without a command":              {false, []history.Command{conflict}},
		"released twice":                       {false, []history.Command{join, bare(history.CommandRelease, "a", 0, 1015, 1017, true), bare(history.CommandRelease, "a", 0, 1025, 1027, true)}},
		"released once, then lost":             {true, []history.Command{join, bare(history.CommandRelease, "a", 0, 1015, 1017, true), bare(history.CommandRelease, "a", 0, 1025, 1027, false)}},
		"a write after the release":            {false, []history.Command{join, bare(history.CommandRelease, "a", 0, 1015, 1017, true), bare(history.CommandWrite, "a", 1010, 1025, 1027, true)}},
		"a write under the wrong fence":        {false, []history.Command{join, bare(history.CommandWrite, "a", 1009, 1015, 1017, true)}},
		"a write under the right one":          {true, []history.Command{join, bare(history.CommandWrite, "a", 1010, 1015, 1017, true)}},
		"lost while it was there":              {false, []history.Command{join, bare(history.CommandRenew, "a", 1010, 1015, 1017, false), conflict}},
		"pruned before a renewal ran out":      {false, []history.Command{join, bare(history.CommandRenew, "a", 1010, 1090, 1092, true), command(history.CommandAcquire, "c", 1130, 1132, 1131, 1131, held("c", 1131, 1131, 1231))}},
		"pruned after it":                      {true, []history.Command{join, bare(history.CommandRenew, "a", 1010, 1090, 1092, true), command(history.CommandAcquire, "c", 1200, 1202, 1201, 1201, held("c", 1201, 1201, 1301))}},
		"handed over":                          {true, []history.Command{join, bare(history.CommandRelease, "a", 1010, 1019, 1021, true), joinB}},
		"handed over by a wrong fence":         {false, []history.Command{join, bare(history.CommandRelease, "a", 1009, 1019, 1021, true), joinB}},
		"handed over by compare-and-set":       {true, []history.Command{join, bare(history.CommandWriteAndRelease, "a", 1010, 1019, 1021, true), inherits(command(history.CommandAcquire, "b", 1019, 1021, 1020, 1011, held("b", 1011, 1011, 1110)))}},
		"inherited, and a fence that leaps":    {false, []history.Command{join, bare(history.CommandWriteAndRelease, "a", 1010, 1019, 1021, true), inherits(joinB)}},
		"a fence that somebody took":           {false, []history.Command{raised}},
		"a fence that a claim may have taken":  {true, []history.Command{raised, claim}},
		"granted elsewhere":                    {false, []history.Command{conflict, elsewhere}},
		"granted elsewhere, and by a repeat":   {true, []history.Command{conflict, repeated, elsewhere}},
		"found nothing, and granted by a repeat": {true, []history.Command{
			join, nowhere, again, bare(history.CommandRelease, "a", 0, 1015, 1017, true), command(history.CommandRead, "", 1030, 1032, 1031, 1025, held("c", 1025, 1025, 1125)),
		}},
		"not found while it was there": {false, []history.Command{join, missing}},
		"a fence that leaps":           {false, []history.Command{command(history.CommandAcquire, "a", 1009, 1011, 1010, 1500, held("a", 1500, 1500, 1110))}},
	} {
		t.Run(name, func(t *testing.T) {
			sync := command(history.CommandRead, "", 1000, 1000, 1000, 0)
			h := &history.History{
				Documents: []history.Document{{ID: "d", Rules: history.Rules{"write": {"write": {}}}, TTL: 100, WaitTTL: 100}},
				Commands:  append([]history.Command{sync}, test.commands...),
			}
			for i := range h.Commands {
				h.Commands[i].Number = int64(i)
			}
			var counts tally.Tally
			linearizable(h, &counts, 10*time.Second)
			if ok := counts.Violations[PropertyLinear] == 0; ok != test.ok || counts.Outcomes["documents whose order was not found in time"] > 0 {
				t.Errorf("accepted: %v, want %v", ok, test.ok)
			}
		})
	}
}
