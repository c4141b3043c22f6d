package mutants

// lines let waiters of one process sleep too long, or overtake each other.
var lines = []Mutant{
	{
		Name: "a release wakes nobody", Rule: 0,
		Why:  "whoever knows that its own process had the lock sleeps until it would have expired",
		File: "multilock/queue.go",
		Edits: swap(`	l.rest()
	l.judge()
	if l.poller != nil {`,
			`	l.rest()
	if l.poller == nil {
		l.judge()
	}
	if l.poller != nil && l.poller.state == left {`),
		Tests: "^TestAReleaseWakesTheNext$", Packages: inLocker,
	},
	{
		Name: "who gave up goes on asking for all", Rule: 0,
		Why:  "nobody asks, and those in line wait for ever",
		File: "multilock/queue.go",
		Edits: swap(`	l.set(w, left)
	l.remove(w)
	l.judge()`,
			`	l.set(w, left)
	l.remove(w)`),
		Tests: "^TestThePollerHasASuccessor$", Packages: inLocker,
	},
	{
		Name: "a burst has no end", Rule: 0,
		Why:  "one process's waiters hand the lock to each other, and others wait for ever",
		File: "multilock/line.go",
		Edits: swap(`if l.handed == longestBurst || time.Since(l.began) > l.burst {`,
			`if l.handed < 0 && time.Since(l.began) > l.burst {`),
		Tests: "^TestABurstIsBounded$", Packages: inLocker,
	},
	{
		Name: "a place is asked after the more rarely the longer it was waited for", Rule: 0,
		Why:  "where a document's queue goes through several processes, each turn is as long as the pause of whoever is next",
		File: "multilock/line.go",
		Edits: swap(`		waited = 0
`,
			`		waited *= 1
`),
		Tests: "^TestAPlaceIsPolledAsItsQueueMoves$", Packages: inLocker,
	},
	{
		Name: "who comes to wait has all others ask again soon", Rule: 0,
		Why:  "where many processes wait for one long-held lock, each that comes makes the others a load",
		File: "multilock/picture.go",
		Edits: swap(`lastGrant(p.image) != lastGrant(img)`,
			`p.image.Lock.Fence != img.Lock.Fence`),
		Tests: "^TestWhatMovesTheLock$", Packages: inLocker,
	},
	{
		Name: "the line is served backwards", Rule: 0,
		Why:  "whoever came first waits as long as others come",
		File: "multilock/line.go",
		Edits: swap(`l.tags[tag].PushBack(w)`,
			`l.tags[tag].PushFront(w)`),
		Tests: "^TestTheLineIsServedInOrder$", Packages: inLocker,
	},
	{
		Name: "an heir by any filter", Rule: 0,
		Why:  "it is handed a document that its filter doesn't match any more",
		File: "multilock/line.go",
		Edits: swap(` || !w.a.filter.Exact {`,
			` {`),
		Tests: "^TestAnHeirsFilterIsAskedAgain$", Packages: inLocker,
	},
	{
		Name: "the first in line is passed by who asks", Rule: 0,
		Why:  "readers that overlap keep a writer of their own process out for a TTL",
		File: "multilock/line.go",
		Edits: swap(`first.order < w.order && first.state == asleep`,
			`first.order < w.order && first.state == left`),
		Tests: "^TestNobodyAsksPastTheFirst$", Packages: inLocker,
	},
	{
		Name: "a heir's whole image is not seen", Rule: 0,
		Why:  "the line takes the lock for free, and asks in vain while it goes from hand to hand",
		File: "multilock/picture.go",
		Edits: swap(`img = p.dated(img)`,
			`img = nil`),
		Tests: "^(TestOneCommandForEachSection|TestTheClockOfAWholeImage)$", Packages: inLocker,
	},
	{
		Name: "a stored image passes for a new one", Rule: 21,
		Why:  "others join a shared entry as long as a retried command is answered with what it once did",
		File: "multilock/picture.go",
		Edits: swap(`return !whole`,
			`return true`),
		Tests: "^TestTheClockOfAWholeImage$", Packages: inLocker,
	},
	{
		Name: "bursts grow though others came", Rule: 0,
		Why:  "a process with many waiters keeps the others waiting for most of a second, each time",
		File: "multilock/line.go",
		Edits: swap(`if l.picture.rivals.After(l.got) {`,
			`if false {`),
		Tests: "^TestBurstsGrowWhileNobodyComes$", Packages: inLocker,
	},
	{
		Name: "after a burst it asks at once", Rule: 0,
		Why:  "who polls every few milliseconds finds the lock free by chance only, and may not for seconds",
		File: "multilock/line.go",
		Edits: swap(`l.gap = time.Now().Add(gap)`,
			`l.gap = time.Now().Add(gap / 16)`),
		Tests: "^TestTheGapAfterABurst$", Packages: inLocker,
	},
}
