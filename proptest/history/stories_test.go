package history_test

import (
	"slices"

	. "github.com/doclock/doclock/proptest/history"
)

type story struct {
	rules      Rules
	apart      int64 // milliseconds, of the members' clocks; 0 is one server
	log        []string
	commands   []Command
	operations []Operation
}

func (s story) history() *History {
	h := &History{Documents: []Document{{ID: "d", Name: "by hand", Rules: s.rules, TTL: 100, WaitTTL: 100, Log: s.log}}, Apart: s.apart * 1_000_000}
	s.commands = append(s.commands, Command{Kind: CommandRead, Sent: ns(0), Answered: ns(0), Matched: true, Image: image(0, 0)})
	for i, c := range s.commands {
		if c.Number = int64(i + 1); !c.Claims {
			c.Document = "d"
		}
		h.Commands = append(h.Commands, c)
	}
	for i, o := range s.operations {
		o.Document, o.Number = "d", int64(1000+i)
		h.Operations = append(h.Operations, o)
	}
	return h
}

type told struct {
	name               string
	property           string
	rejected, accepted story
}

// Each property refuses one history, and accepts a similar one, in which no
// property finds a violation.
var stories = []told{
	{"granted while another holds", PropertyExclusion,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 50, 20, 150)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 112, 20, 212)}}},
	{"a third beside two", PropertyExclusion,
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(12, 20, held("a", 10, 10, 110), held("b", 20, 20, 110)), acquire("c", 50, 30, 150)}},
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(12, 20, held("a", 10, 10, 110), held("b", 20, 20, 115)),
			command(CommandAcquire, "c", 112, image(112, 30, held("b", 20, 20, 115), held("c", 30, 30, 212)))}}},
	{"granted before a release of unknown outcome was sent", PropertyExclusion,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 50, 20, 150), unanswered(command(CommandRelease, "a", 60, nil))}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 50, 20, 150), unanswered(command(CommandRelease, "a", 40, nil))}}},
	{"an unknown tag ignored", PropertyImage,
		story{rules: Rules{"write": {}}, commands: []Command{read(10, 20, reading(held("a", 10, 10, 110)), held("b", 20, 20, 110))}},
		story{rules: Rules{"write": {}, "read": {}}, commands: []Command{read(10, 20, reading(held("a", 10, 10, 110)), held("b", 20, 20, 110))}}},
	{"a number above the document's", PropertyNumbers,
		story{rules: exclusive, commands: []Command{read(10, 9, held("a", 10, 10, 110))}},
		story{rules: exclusive, commands: []Command{read(10, 10, held("a", 10, 10, 110))}}},
	{"granted before it had arrived", PropertyNumbers,
		story{rules: exclusive, commands: []Command{read(10, 10, held("a", 10, 8, 110))}},
		story{rules: exclusive, commands: []Command{read(10, 10, held("a", 8, 10, 110))}}},
	{"granted before one that came earlier, or on the document that was made anew", PropertyFIFO,
		story{rules: queued, apart: 5, commands: []Command{read(10, 11, waiting("a", 11, 110)), read(12, 30, held("a", 11, 30, 110)), read(14, 20, held("b", 20, 20, 120))}},
		story{rules: queued, apart: 5, commands: []Command{read(10, 11, waiting("a", 11, 110)), read(12, 30, held("a", 11, 30, 110)), guarded(CommandDelete, "a", 30, 13), read(14, 20, held("b", 20, 20, 120))}}},
	{"valid by a renewal that the server never made", PropertyValidity,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), guarded(CommandRenew, "a", 10, 50), read(70, 10, held("a", 10, 10, 110))},
			operations: []Operation{look("a", 10, 60, 85)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), guarded(CommandRenew, "a", 10, 50), read(70, 10, held("a", 10, 10, 150))},
			operations: []Operation{look("a", 10, 60, 85)}}},
	{"renewed after it was absent", PropertyRenewal,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), read(112, 10), guarded(CommandRenew, "a", 10, 120)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), read(112, 10), guarded(CommandRenew, "a", 10, 100)}}},
	{"back under its old fence", PropertyRenewal,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), read(112, 10), read(120, 10, held("a", 10, 10, 110))}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), read(112, 10), read(120, 20, held("a", 20, 20, 220))}}},
	{"valid again", PropertyOver,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{look("a", 10, 20, 0), look("a", 10, 30, 5)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{look("a", 10, 20, 5), look("a", 10, 30, 0)}}},
	{"renewed after its end", PropertyOver,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{look("a", 10, 20, 0), operation(Renew, "a", 10, 30, Done)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{look("a", 10, 20, 0), operation(Renew, "a", 10, 30, Lost)}}},
	{"absent by another's release", PropertyRelease,
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), command(CommandRelease, "b", 30, nil), read(50, 10)}},
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), unanswered(command(CommandRelease, "a", 30, nil)), read(50, 10)}}},
	{"pruned alive", PropertyRelease,
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 107, 20, 207)}},
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 110, 20, 210)}}},
	{"there after its release", PropertyGone,
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(50, 10, held("a", 10, 10, 110))}, operations: []Operation{operation(Release, "a", 10, 30, Done)}},
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(31, 10, held("a", 10, 10, 110))}, operations: []Operation{operation(Release, "a", 10, 30, Done)}}},
	{"there after a loss", PropertyGone,
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(50, 10, held("a", 10, 10, 110))}, operations: []Operation{operation(Release, "a", 10, 30, Lost)}},
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(31, 10, held("a", 10, 10, 110))}, operations: []Operation{operation(Release, "a", 10, 30, Lost)}}},
	{"there after an update that was to release it, and not expired", PropertyGone,
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(50, 10, until(60, held("a", 10, 10, 110)))}, operations: []Operation{operation(UpdateAndRelease, "a", 10, 30, Done)}},
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(120, 10, until(60, held("a", 10, 10, 110)))}, operations: []Operation{operation(UpdateAndRelease, "a", 10, 30, Done)}}},
	{"there after an update that was to release it, and without a token by which others may extend it", PropertyGone,
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(50, 10, until(60, held("a", 10, 10, 110)))}, operations: []Operation{operation(UpdateAndRelease, "a", 10, 30, Done)}},
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(50, 10, until(60, keyed(held("a", 10, 10, 110))))}, operations: []Operation{operation(UpdateAndRelease, "a", 10, 30, Done)}}},
	{"expired, after an update that released it by the same command", PropertyGone,
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(120, 10, held("a", 10, 10, 110))}, operations: []Operation{operation(UpdateAndRelease, "a", 10, 30, Done)}},
		story{rules: two, commands: []Command{acquire("a", 10, 10, 110), read(31, 10, held("a", 10, 10, 110))}, operations: []Operation{operation(UpdateAndRelease, "a", 10, 30, Done)}}},
	{"a token that was told as lost", PropertyGone,
		story{rules: two, commands: []Command{read(10, 10, keyed(held("a", 10, 10, 110))), read(50, 10, keyed(held("a", 10, 10, 110)))}, operations: []Operation{lostToken(30)}},
		story{rules: two, commands: []Command{read(31, 10, keyed(held("a", 10, 10, 110))), read(50, 10, keyed(held("a", 10, 10, 110)))}, operations: []Operation{lostToken(30)}}},
	{"a refusal by an old document", PropertyRenewal,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), removal("a", 30, held("a", 10, 10, 110)), read(50, 10), command(CommandAcquire, "b", 60, image(60, 10, held("a", 10, 10, 110)))}},
		story{rules: exclusive, apart: 1, commands: []Command{acquire("a", 10, 10, 110), removal("a", 30, held("a", 10, 10, 110)), read(50, 10), command(CommandAcquire, "b", 60, image(60, 10, held("a", 10, 10, 110)))}}},
	{"an old document in a read of the newest", PropertyRenewal,
		story{rules: exclusive, apart: 1, commands: []Command{acquire("a", 10, 10, 110), read(112, 10), read(120, 10, held("a", 10, 10, 110))}},
		story{rules: exclusive, apart: 4, commands: []Command{acquire("a", 10, 10, 110), read(112, 10), read(117, 10, held("a", 10, 10, 110))}}},
	{"a fence given twice", PropertyTokens,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 20, 110), acquire("b", 120, 20, 220)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 20, 110), acquire("b", 120, 21, 220)}}},
	{"a fence by a member whose clock is behind, and no document made anew", PropertyCounter,
		story{rules: exclusive, apart: 5, commands: []Command{read(10, 20), read(50, 15, held("b", 15, 15, 120))}},
		story{rules: exclusive, apart: 5, commands: []Command{read(10, 20), guarded(CommandDelete, "a", 20, 30), read(50, 15, held("b", 15, 15, 120))}}},
	{"a later arrival comes first", PropertyArrivals,
		story{rules: queued, commands: []Command{command(CommandAcquire, "a", 10, image(10, 20, held("x", 5, 5, 300), waiting("a", 20, 110))), command(CommandAcquire, "b", 20, image(20, 20, held("x", 5, 5, 300), waiting("b", 15, 120), waiting("a", 20, 110)))}},
		story{rules: queued, commands: []Command{command(CommandAcquire, "a", 10, image(10, 20, held("x", 5, 5, 300), waiting("a", 20, 110))), command(CommandAcquire, "b", 20, image(20, 25, held("x", 5, 5, 300), waiting("b", 25, 120), waiting("a", 20, 110)))}}},
	{"lock.fence decreases", PropertyCounter,
		story{rules: exclusive, commands: []Command{read(10, 20), read(20, 10)}},
		story{rules: exclusive, commands: []Command{read(10, 20), read(20, 20)}}},
	{"refused without a reason", PropertyReason,
		story{rules: exclusive, commands: []Command{command(CommandAcquire, "b", 50, image(50, 10, held("a", 10, 10, 50)))}},
		story{rules: exclusive, commands: []Command{command(CommandAcquire, "b", 50, image(50, 10, held("a", 10, 10, 51)))}}},
	{"kept waiting by a later one", PropertyReason,
		story{rules: queued, commands: []Command{command(CommandConfirm, "b", 50, image(50, 20, waiting("b", 10, 110), waiting("a", 20, 110)))}},
		story{rules: queued, commands: []Command{command(CommandConfirm, "b", 50, image(50, 20, waiting("b", 20, 110), waiting("a", 10, 110)))}}},
	{"applied twice", PropertyOnce,
		story{rules: exclusive, log: []string{"10/w1", "10/w1"}, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{write("w1", 10, 20, Unknown)}},
		story{rules: exclusive, log: []string{"10/w1"}, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{write("w1", 10, 20, Unknown)}}},
	{"reported applied, and not", PropertyOnce,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{write("w1", 10, 20, Done)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{write("w1", 10, 20, Unknown)}}},
	{"reported lost, and applied", PropertyOnce,
		story{rules: exclusive, log: []string{"10/w1"}, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{write("w1", 10, 20, Lost)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{write("w1", 10, 20, Lost)}}},
	{"a late write", PropertyGuarded,
		story{rules: exclusive, log: []string{"20/w2", "10/w1"}, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 120, 20, 220)}},
		story{rules: exclusive, log: []string{"10/w1", "20/w2"}, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 120, 20, 220)}}},
	{"a lease out of nothing", PropertyGrant,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{operation(TryAcquire, "a", 11, 10, Granted)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110)}, operations: []Operation{operation(TryAcquire, "a", 10, 10, Granted)}}},
	{"released, though another was let in", PropertyVerdict,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 120, 20, 220)}, operations: []Operation{operation(Release, "a", 10, 130, Done)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 120, 20, 220)}, operations: []Operation{operation(Release, "a", 10, 130, Lost)}}},
	{"lost, though the server found it", PropertyVerdict,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), removal("a", 20, held("a", 10, 10, 110))}, operations: []Operation{operation(Release, "a", 10, 20, Lost)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), removal("a", 20, held("a", 30, 30, 110))}, operations: []Operation{operation(Release, "a", 10, 20, Lost)}}},
}

var handoffs = []told{
	{"handed over beside one that holds", PropertyExclusion,
		story{rules: mixed, commands: slices.Concat([]Command{acquire("a", 10, 10, 110), read(12, 11, held("a", 10, 10, 110), reading(held("b", 11, 11, 110)))},
			handoff("a", 10, 30, "c", image(30, 30, held("c", 30, 30, 130))))},
		story{rules: mixed, commands: slices.Concat([]Command{acquire("a", 10, 10, 110), read(12, 11, held("a", 10, 10, 110), reading(held("b", 11, 11, 28)))},
			handoff("a", 10, 30, "c", image(30, 30, held("c", 30, 30, 130))))}},
	{"handed over past one that waits", PropertyBarrier,
		story{rules: queued, commands: slices.Concat([]Command{acquire("a", 10, 10, 110), read(12, 11, held("a", 10, 10, 110), waiting("b", 11, 60))},
			handoff("a", 10, 30, "c", image(30, 30, waiting("b", 11, 60), held("c", 30, 30, 130))))},
		story{rules: queued, commands: slices.Concat([]Command{acquire("a", 10, 10, 110), read(12, 11, held("a", 10, 10, 110), waiting("b", 11, 60))},
			handoff("a", 10, 30, "b", image(30, 30, held("b", 11, 30, 130))))}},
	{"handed over under a lower fence", PropertyTokens,
		story{rules: exclusive, commands: slices.Concat([]Command{acquire("a", 10, 30, 110)}, handoff("a", 30, 40, "b", image(40, 20, held("b", 20, 20, 140))))},
		story{rules: exclusive, commands: slices.Concat([]Command{acquire("a", 10, 20, 110)}, handoff("a", 20, 40, "b", image(40, 30, held("b", 30, 30, 140))))}},
	{"the successor is valid past the time that it inherits", PropertyValidity,
		story{rules: exclusive, commands: slices.Concat([]Command{acquire("a", 10, 10, 110)}, handoff("a", 10, 30, "b", image(30, 11, held("b", 11, 11, 110)))), operations: []Operation{look("b", 11, 40, 75)}},
		story{rules: exclusive, commands: slices.Concat([]Command{acquire("a", 10, 10, 110)}, handoff("a", 10, 30, "b", image(30, 11, held("b", 11, 11, 110)))), operations: []Operation{look("b", 11, 40, 65)}}},
	{"valid after it was handed over", PropertyValidAlone,
		story{rules: exclusive, commands: slices.Concat([]Command{acquire("a", 10, 10, 110)}, handoff("a", 10, 30, "b", image(30, 30, held("b", 30, 30, 130)))), operations: []Operation{look("a", 10, 40, 5)}},
		story{rules: exclusive, commands: slices.Concat([]Command{acquire("a", 10, 10, 110)}, handoff("a", 10, 30, "b", image(30, 30, held("b", 30, 30, 130)))), operations: []Operation{look("a", 10, 25, 5)}}},
	{"lost, though the handoff found it", PropertyVerdict,
		story{rules: exclusive, commands: slices.Concat([]Command{acquire("a", 10, 10, 110)}, handoff("a", 10, 30, "b", image(30, 30, held("b", 30, 30, 130)))), operations: []Operation{operation(Release, "a", 10, 30, Lost)}},
		story{rules: exclusive, commands: slices.Concat([]Command{acquire("a", 10, 10, 110)}, handoff("a", 10, 30, "b", image(30, 30, held("b", 30, 30, 130)))), operations: []Operation{operation(Release, "a", 10, 30, Done)}}},
}
