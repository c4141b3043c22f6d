package mutants

// lines let waiters of one process sleep too long, or overtake each other.
var lines = []Mutant{
	{
		Name: "a release wakes nobody", Rule: 0,
		Why:  "whoever knows that its own process had the lock sleeps until it would have expired",
		File: "multilock/queue.go",
		Edits: swap(`	l.rest()
	l.judge()
`,
			`	l.rest()
	if l.poller == nil {
		l.judge()
	}
`),
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
		File: "multilock/burst.go",
		Edits: swap(`if l.handed == longestBurst || time.Since(l.began) > l.burst {`,
			`if l.handed < 0 && time.Since(l.began) > l.burst {`),
		Tests: "^TestABurstIsBounded$", Packages: inLocker,
	},
	{
		Name: "a place is asked after the more rarely the longer it was waited for", Rule: 0,
		Why:  "where a document's queue goes through several processes, each turn is as long as the pause of whoever is next",
		File: "multilock/poll.go",
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
		File: "multilock/burst.go",
		Edits: swap(` || w.ticket == nil && !w.a.filter.Exact {`,
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
		File: "multilock/burst.go",
		Edits: swap(`if l.picture.rivals.After(l.got) {`,
			`if false {`),
		Tests: "^TestBurstsGrowWhileNobodyComes$", Packages: inLocker,
	},
	{
		Name: "after a burst it asks at once", Rule: 0,
		Why:  "who polls every few milliseconds finds the lock free by chance only, and may not for seconds",
		File: "multilock/burst.go",
		Edits: swap(`l.gap = time.Now().Add(gap)`,
			`l.gap = time.Now().Add(gap / 16)`),
		Tests: "^TestTheGapAfterABurst$", Packages: inLocker,
	},
	{
		Name: "the first question by any filter takes a place", Rule: 0,
		Why:  "the waiter keeps back those who stand in line before it, and its own turn in line comes after theirs",
		File: "multilock/wait.go",
		Edits: []Edit{{`	a.request.Try = true
`, ``}, {`	if !errors.Is(err, doclock.ErrConflict) {
`, `	if err == nil && t.lease == nil {
		lease, err := t.Wait(ctx)
		return waited{lease, err}
	}
	if !errors.Is(err, doclock.ErrConflict) {
`}},
		Tests: "^TestAWaiterByAnyFilterStandsInLine$", Packages: inLocker,
	},
	{
		Name: "the poller sleeps as long as it likes itself", Rule: 0,
		Why:  "who waits for another holder than the first in line is let in when the first's would have expired",
		File: "multilock/poll.go",
		Edits: swap(`head != w && head.state == asleep && head.ticket == nil {`,
			`head == nil {`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inLocker,
	},
	{
		Name: "the poller isn't told who came", Rule: 0,
		Why:  "it sleeps for those who were there before",
		File: "multilock/line.go",
		Edits: swap(`	w.place = l.tags[tag].PushBack(w)
	l.stirred = l.stirred || l.tags[tag].first() == w
`,
			`	w.place = l.tags[tag].PushBack(w)
`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inLocker,
	},
	{
		Name: "any own holder is waited for", Rule: 0,
		Why:  "where some holders are tolerated, a waiter doesn't ask as long as its process has one, and another one has left",
		File: "multilock/poll.go",
		Edits: swap(`if blocking, free := l.inTheWay(w, ours); len(blocking) > 0 {`,
			`if blocking, free := l.inTheWay(w, img); len(blocking) > 0 && len(ours.Lock.Entries) > 0 {`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inLocker,
	},
	{
		Name: "who was refused asks as the picture says", Rule: 0,
		Why:  "where the server disagrees, a waiter asks a thousand times a second",
		File: "multilock/poll.go",
		Edits: swap(`if w.news != l.picture.news {`,
			`if w.rest >= 0 {`),
		Tests: "^TestWho(Was|ever)RefusedRests$", Packages: inLocker,
	},
	{
		Name: "what made way while it asked was before the refusal", Rule: 0,
		Why:  "a waiter that was refused a moment before the release sleeps for a pause",
		File: "multilock/poll.go",
		Edits: swap(`	if w.news == news {
`,
			`	if w.news <= news {
`),
		Tests: "^TestNewsOnTheWay$", Packages: inLocker,
	},
	{
		Name: "the image of a later command is older by the server's clock", Rule: 0,
		Why:  "after the clock was set back, or the number, nothing is seen until it has come so far again",
		File: "multilock/picture.go",
		Edits: swap(`!sent.After(p.taken) && older(`,
			`older(`),
		Tests: "^TestALaterCommandsImageIsNewer$", Packages: inLocker,
	},
	{
		Name: "an entry that was brought back is not seen", Rule: 0,
		Why:  "for the process that released it the lock is free, and it asks in vain",
		File: "multilock/picture.go",
		Edits: swap(`if d.end.IsZero() || !sent.After(d.end) {`,
			`if d.id != uuid.Nil {`),
		Tests: "^TestAnEntryThatWasBroughtBackIsSeen$", Packages: inLocker,
	},
	{
		Name: "a removed entry wakes nobody", Rule: 0,
		Why:  "whom a waiter of its own process kept back, that has given up, sleeps for a pause, up to a second and a half",
		File: "multilock/cleanup.go",
		Edits: swap(`c.removed(key(p.pin), id)`,
			`_ = c.removed`),
		Tests: "^TestARemovedEntryWakesTheNext$", Packages: inLocker,
	},
}
