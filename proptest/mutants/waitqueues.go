package mutants

// waitQueues let waiters of one process sleep too long, or overtake each other.
var waitQueues = []Mutant{
	{
		Name: "a release wakes no waiter", Rule: 0,
		Why:  "a waiter that knows that its own process had the lock sleeps until it would have expired",
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
		Name: "a poller that gave up stays the poller", Rule: 0,
		Why:  "no waiter asks, and the wait queue waits for ever",
		File: "multilock/queue.go",
		Edits: swap(`	l.set(w, left)
	l.remove(w)
	l.judge()`,
			`	l.set(w, left)
	l.remove(w)`),
		Tests: "^TestThePollerHasASuccessor$", Packages: inLocker,
	},
	{
		Name: "a local run has no end", Rule: 0,
		Why:  "one process's waiters hand the lock to each other, and others wait for ever",
		File: "multilock/burst.go",
		Edits: swap(`if l.handed == longestBurst || time.Since(l.began) > l.burst {`,
			`if l.handed < 0 && time.Since(l.began) > l.burst {`),
		Tests: "^TestABurstIsBounded$", Packages: inLocker,
	},
	{
		Name: "the pauses for a place grow with the wait", Rule: 0,
		Why:  "if a document queue has entries of several processes, each turn takes as long as the next waiter's pause",
		File: "multilock/poll.go",
		Edits: swap(`		waited = 0
`,
			`		waited *= 1
`),
		Tests: "^TestAPlaceIsPolledAsItsQueueMoves$", Packages: inLocker,
	},
	{
		Name: "a new waiter makes all others ask again soon", Rule: 0,
		Why:  "if many processes wait for one long-held lock, each new waiter makes all others send commands",
		File: "multilock/picture.go",
		Edits: swap(`lastGrant(p.image) != lastGrant(img)`,
			`p.image.Lock.Fence != img.Lock.Fence`),
		Tests: "^TestWhatMovesTheLock$", Packages: inLocker,
	},
	{
		Name: "the wait queue is served backwards", Rule: 0,
		Why:  "the first waiter waits as long as others come",
		File: "multilock/line.go",
		Edits: swap(`l.tags[tag].PushBack(w)`,
			`l.tags[tag].PushFront(w)`),
		Tests: "^TestTheLineIsServedInOrder$", Packages: inLocker,
	},
	{
		Name: "a successor by a filter that is not exact", Rule: 0,
		Why:  "it is handed a document that its filter may not match any more",
		File: "multilock/burst.go",
		Edits: swap(` || w.ticket == nil && !w.a.filter.Exact {`,
			` {`),
		Tests: "^TestAnHeirsFilterIsAskedAgain$", Packages: inLocker,
	},
	{
		Name: "waiters ask past the first of the wait queue", Rule: 0,
		Why:  "overlapping readers keep a writer of their own process out for a TTL",
		File: "multilock/line.go",
		Edits: swap(`first.order < w.order && first.state == asleep`,
			`first.order < w.order && first.state == left`),
		Tests: "^TestNobodyAsksPastTheFirst$", Packages: inLocker,
	},
	{
		Name: "a successor's whole image is not used", Rule: 0,
		Why:  "to the wait queue the lock looks free, and it asks in vain while the lock is handed over",
		File: "multilock/picture.go",
		Edits: swap(`img = p.dated(img)`,
			`img = nil`),
		Tests: "^(TestOneCommandForEachSection|TestTheClockOfAWholeImage)$", Packages: inLocker,
	},
	{
		Name: "a stored image counts as a new one", Rule: 21,
		Why:  "holders join a shared entry as long as retried commands are answered with stored images",
		File: "multilock/picture.go",
		Edits: swap(`return !whole`,
			`return true`),
		Tests: "^TestTheClockOfAWholeImage$", Packages: inLocker,
	},
	{
		Name: "local runs grow though others came", Rule: 0,
		Why:  "a process with many waiters makes the others wait for most of a second, each time",
		File: "multilock/burst.go",
		Edits: swap(`if l.picture.rivals.After(l.got) {`,
			`if false {`),
		Tests: "^TestBurstsGrowWhileNobodyComes$", Packages: inLocker,
	},
	{
		Name: "after a local run the process asks at once", Rule: 0,
		Why:  "a waiter that polls every few milliseconds finds the lock free only by chance, and perhaps not for seconds",
		File: "multilock/burst.go",
		Edits: swap(`l.gap = time.Now().Add(gap)`,
			`l.gap = time.Now().Add(gap / 16)`),
		Tests: "^TestTheGapAfterABurst$", Packages: inLocker,
	},
	{
		Name: "the first acquire by an unpinned filter takes a place", Rule: 0,
		Why:  "the waiter blocks waiters before it in the wait queue, and its own turn comes after theirs",
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
		Name: "the poller sleeps by its own wait only", Rule: 0,
		Why:  "a waiter for another holder is let in when the holder that the poller waits for would have expired",
		File: "multilock/poll.go",
		Edits: swap(`head != w && head.state == asleep && head.ticket == nil {`,
			`head == nil {`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inLocker,
	},
	{
		Name: "the poller doesn't learn of a new waiter", Rule: 0,
		Why:  "it sleeps as long as the earlier waiters need",
		File: "multilock/line.go",
		Edits: swap(`	w.place = l.tags[tag].PushBack(w)
	l.stirred = l.stirred || l.tags[tag].first() == w
`,
			`	w.place = l.tags[tag].PushBack(w)
`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inLocker,
	},
	{
		Name: "a waiter waits for any own holder", Rule: 0,
		Why:  "if some holders are tolerated, a waiter doesn't ask while its process has one, although another one has left",
		File: "multilock/poll.go",
		Edits: swap(`if blocking, free := l.inTheWay(w, ours); len(blocking) > 0 {`,
			`if blocking, free := l.inTheWay(w, img); len(blocking) > 0 && len(ours.Lock.Entries) > 0 {`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inLocker,
	},
	{
		Name: "a refused waiter asks as the view says", Rule: 0,
		Why:  "if the server disagrees with the view, a waiter asks a thousand times a second",
		File: "multilock/poll.go",
		Edits: swap(`if w.news != l.picture.news {`,
			`if w.rest >= 0 {`),
		Tests: "^TestWho(Was|ever)RefusedRests$", Packages: inLocker,
	},
	{
		Name: "a release during a question counts as before the refusal", Rule: 0,
		Why:  "a waiter that was refused a moment before the release sleeps for a pause",
		File: "multilock/poll.go",
		Edits: swap(`	if w.news == news {
`,
			`	if w.news <= news {
`),
		Tests: "^TestNewsOnTheWay$", Packages: inLocker,
	},
	{
		Name: "the server's clock orders the images of later commands", Rule: 0,
		Why:  "after the clock, or lock.fence, was set back, no image is used until it has caught up",
		File: "multilock/picture.go",
		Edits: swap(`!sent.After(p.taken) && older(`,
			`older(`),
		Tests: "^TestALaterCommandsImageIsNewer$", Packages: inLocker,
	},
	{
		Name: "an entry that was brought back is not seen", Rule: 0,
		Why:  "to the process that released it the lock looks free, and it asks in vain",
		File: "multilock/picture.go",
		Edits: swap(`if d.end.IsZero() || !sent.After(d.end) {`,
			`if d.id != uuid.Nil {`),
		Tests: "^TestAnEntryThatWasBroughtBackIsSeen$", Packages: inLocker,
	},
	{
		Name: "a removed entry wakes no waiter", Rule: 0,
		Why:  "a waiter that was blocked by a waiter of its own process that gave up sleeps for a pause, up to a second and a half",
		File: "multilock/cleanup.go",
		Edits: swap(`c.removed(key(p.pin), id)`,
			`_ = c.removed`),
		Tests: "^TestARemovedEntryWakesTheNext$", Packages: inLocker,
	},
}
