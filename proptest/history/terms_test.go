package history_test

import (
	. "github.com/doclock/doclock/proptest/history"
)

// The entry of a token, one that keeps others out, and the commands for them.

func keyed(e Entry) Entry {
	e.Key = "k"
	return e
}

func until(at int64, e Entry) Entry {
	e.Until = start + at
	return e
}

func detach(id string, fence, at int64) Command {
	c := guarded(CommandDetach, id, fence, at)
	c.Key = "k"
	return c
}

func resume(id string, at, seq, fence, expires int64) Command {
	c := command(CommandResume, id, at, image(at, fence, keyed(held(id, seq, fence, expires))))
	c.Key = "k"
	return c
}

func touch(at int64) Command {
	c := command(CommandTouch, "", at, nil)
	c.Key = "k"
	return c
}

func takeOver(of string, fence int64, id string, at int64, img *Image) Command {
	c := command(CommandAcquire, id, at, img)
	c.Named = []Name{{of, fence}}
	return c
}

// claim names no document, and has no answer that does.
func claim(c Command) Command {
	c.Claims = true
	return unanswered(c)
}

func broken(fence int64, c Command) Command {
	c.Image.Broken = fence
	return c
}

func convert(from, id string, at int64, img *Image) Command {
	c := command(CommandConvert, id, at, img)
	c.From = from
	return c
}

// kept is an acquire whose entry keeps others out until 110, and its release.
func kept() []Command {
	return []Command{
		command(CommandAcquire, "a", 10, image(10, 10, until(110, held("a", 10, 10, 110)))),
		removal("a", 30, until(110, held("a", 10, 10, 110))),
		read(40, 10, until(110, held("r", 10, 10, 110))),
	}
}

func resumed(more ...Command) []Command {
	return append([]Command{acquire("a", 10, 10, 110), detach("a", 10, 20), resume("b", 30, 10, 20, 130)}, more...)
}

// leaves is a release of the resumed entry, and a look at what it has left.
func leaves(more ...Command) []Command {
	return resumed(append([]Command{removal("b", 40, until(130, held("b", 10, 20, 130))), read(45, 20, until(130, held("r", 10, 20, 130)))}, more...)...)
}

func byOperator(c Command) Command {
	c.Process = 1
	return c
}

// terms are histories with tokens, conversions, and entries that keep others out.
var terms = []told{
	{"granted before the time that the released entry keeps", PropertyExclusion,
		story{rules: exclusive, commands: append(kept(), acquire("b", 60, 20, 160))},
		story{rules: exclusive, commands: append(kept(), acquire("b", 112, 20, 212))}},
	{"absent by a refused conversion", PropertyRelease,
		story{rules: readers, commands: []Command{acquire("a", 10, 10, 110), convert("a", "b", 30, image(30, 10, held("a", 10, 10, 110))), read(50, 10)}},
		story{rules: readers, commands: []Command{acquire("a", 10, 10, 110), convert("a", "b", 30, image(30, 20, reading(held("b", 20, 20, 130)))), read(50, 20, reading(held("b", 20, 20, 130)))}}},
	{"one fence for two resumes", PropertyTokens,
		story{rules: exclusive, commands: resumed(resume("c", 40, 10, 20, 140))},
		story{rules: exclusive, commands: resumed(resume("c", 40, 10, 30, 140))}},
	{"a late write of the handle that detached", PropertyGuarded,
		story{rules: exclusive, log: []string{"20/w2", "10/w1"}, commands: resumed()},
		story{rules: exclusive, log: []string{"10/w1", "20/w2"}, commands: resumed()}},
	{"a write that succeeds after the resume", PropertyVerdict,
		story{rules: exclusive, log: []string{"10/w1"}, commands: resumed(), operations: []Operation{write("w1", 10, 60, Done)}},
		story{rules: exclusive, log: []string{"10/w1"}, commands: resumed(), operations: []Operation{write("w1", 10, 25, Done)}}},
	{"a release that succeeds after the resume", PropertyVerdict,
		story{rules: exclusive, commands: resumed(), operations: []Operation{operation(Release, "a", 10, 60, Done)}},
		story{rules: exclusive, commands: resumed(byOperator(removal("b", 40, held("b", 10, 20, 130)))),
			operations: []Operation{operation(Resume, "b", 20, 30, Granted), operation(Release, "a", 10, 60, Done)}}},
	{"valid for longer than a touch has extended it", PropertyValidity,
		story{rules: exclusive, commands: resumed(touch(60)), operations: []Operation{look("b", 20, 70, 95)}},
		story{rules: exclusive, commands: resumed(touch(60)), operations: []Operation{look("b", 20, 70, 85)}}},
	{"valid after another was let in beside the resume", PropertyValidAlone,
		story{rules: exclusive, commands: resumed(acquire("c", 60, 30, 160)), operations: []Operation{look("b", 20, 70, 5)}},
		story{rules: exclusive, commands: resumed(), operations: []Operation{look("a", 10, 70, 5), look("b", 20, 70, 5)}}},
	{"valid after another was let in, and took nothing over from a later user, of whom no call is known", PropertyValidAlone,
		story{rules: exclusive, commands: resumed(acquire("c", 60, 30, 160)), operations: []Operation{look("a", 10, 70, 5)}},
		story{rules: exclusive, commands: resumed(takeOver("b", 20, "c", 60, image(60, 30, held("c", 30, 30, 160)))), operations: []Operation{look("a", 10, 70, 5)}}},
	{"valid after another was let in beside what a user has left", PropertyValidAlone,
		story{rules: exclusive, commands: leaves(acquire("c", 60, 30, 160)), operations: []Operation{look("a", 10, 70, 5)}},
		story{rules: exclusive, commands: leaves(removal("r", 50, until(130, held("r", 10, 20, 130))), acquire("c", 60, 30, 160)),
			operations: []Operation{look("a", 10, 70, 5)}}},
	{"a resume out of nothing", PropertyGrant,
		story{rules: exclusive, commands: resumed(), operations: []Operation{operation(Resume, "b", 21, 30, Granted)}},
		story{rules: exclusive, commands: resumed(), operations: []Operation{operation(Resume, "b", 20, 30, Granted)}}},
	{"absent by a refused take-over", PropertyRelease,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), takeOver("a", 10, "b", 30, image(30, 10, held("a", 10, 10, 110))), read(50, 10)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), takeOver("a", 10, "b", 30, image(30, 20, held("b", 20, 20, 130))), read(50, 20, held("b", 20, 20, 130))}}},
	{"absent by a take-over that named no document, and another entry", PropertyRelease,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), claim(takeOver("x", 10, "b", 30, nil)), read(50, 20)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), claim(takeOver("a", 10, "b", 30, nil)), read(50, 20)}}},
	{"arrived past one that waits, as a take-over may", PropertyBarrier,
		story{rules: readers, commands: []Command{removal("a", 12, held("a", 10, 10, 110)), read(14, 11, waiting("c", 11, 111)),
			command(CommandAcquire, "b", 30, image(30, 30, waiting("c", 11, 111), reading(held("b", 30, 30, 130))))}},
		story{rules: readers, commands: []Command{acquire("a", 10, 10, 110), read(12, 11, held("a", 10, 10, 110), waiting("c", 11, 111)),
			takeOver("a", 10, "b", 30, image(30, 30, waiting("c", 11, 111), reading(held("b", 30, 30, 130))))}}},
	{"a release that succeeds after another was let in, and took nothing over", PropertyVerdict,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), acquire("b", 30, 20, 130)}, operations: []Operation{operation(Release, "a", 10, 60, Done)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), takeOver("a", 10, "b", 30, image(30, 20, held("b", 20, 20, 130)))}, operations: []Operation{operation(Release, "a", 10, 60, Done)}}},
	{"a release that succeeds, of what a take-over has ended", PropertyVerdict,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), broken(10, takeOver("a", 10, "b", 30, image(30, 20, held("b", 20, 20, 130))))}, operations: []Operation{operation(Release, "a", 10, 60, Done)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), broken(9, takeOver("a", 10, "b", 30, image(30, 20, held("b", 20, 20, 130))))}, operations: []Operation{operation(Release, "a", 10, 60, Done)}}},
	{"a release that succeeds, of what a take-over has ended before the document was deleted", PropertyVerdict,
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), broken(10, takeOver("a", 10, "b", 30, image(30, 20, held("b", 20, 20, 130)))), unanswered(guarded(CommandDelete, "b", 20, 64))}, operations: []Operation{operation(Release, "a", 10, 60, Done)}},
		story{rules: exclusive, commands: []Command{acquire("a", 10, 10, 110), broken(10, takeOver("a", 10, "b", 30, image(30, 20, held("b", 20, 20, 130)))), unanswered(guarded(CommandDelete, "b", 20, 40))}, operations: []Operation{operation(Release, "a", 10, 60, Done)}}},
	{"arrived past one that waits, as a conversion may", PropertyBarrier,
		story{rules: readers, commands: []Command{removal("a", 12, held("a", 10, 10, 110)), read(14, 11, waiting("c", 11, 111)),
			command(CommandAcquire, "b", 30, image(30, 30, waiting("c", 11, 111), reading(held("b", 30, 30, 130))))}},
		story{rules: readers, commands: []Command{acquire("a", 10, 10, 110), read(12, 11, held("a", 10, 10, 110), waiting("c", 11, 111)),
			convert("a", "b", 30, image(30, 30, waiting("c", 11, 111), reading(held("b", 30, 30, 130))))}}},
}
