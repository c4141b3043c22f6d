package mutants

// lines let waiters of one process sleep too long, or overtake each other.
var lines = []Mutant{
	{
		Name: "a release wakes nobody", Rule: 0,
		Why:  "whoever knows that its own process had the lock sleeps until it would have expired",
		File: "internal/waitqueue/succession.go",
		Edits: swap(`		d.run.yield()
		d.judge()
`,
			`		d.run.yield()
		if d.poller == nil {
			d.judge()
		}
`),
		Tests: "^TestAReleaseWakesTheNext$", Packages: inQueue,
	},
	{
		Name: "who gave up goes on asking for all", Rule: 0,
		Why:  "nobody asks, and those in line wait for ever",
		File: "internal/waitqueue/queues.go",
		Edits: swap(`	d.set(w, left)
	d.remove(w)
	d.judge()`,
			`	d.set(w, left)
	d.remove(w)`),
		Tests: "^TestThePollerHasASuccessor$", Packages: inQueue,
	},
	{
		Name: "a burst has no end", Rule: 0,
		Why:  "one process's waiters hand the lock to each other, and others wait for ever",
		File: "internal/waitqueue/fairness.go",
		Edits: swap(`if r.handed == longestRun || r.clock()-r.first > r.most {`,
			`if r.handed < 0 && r.clock()-r.first > r.most {`),
		Tests: "^(TestALocalRunIsBounded|TestAThousandWaitersAreServedInOrder)$", Packages: inQueue,
	},
	{
		Name: "a place is asked after the more rarely the longer it was waited for", Rule: 0,
		Why:  "where a document's queue goes through several processes, each turn is as long as the pause of whoever is next",
		File: "internal/waitqueue/backoff.go",
		Edits: swap(`		waited = 0
`,
			`		waited *= 1
`),
		Tests: "^TestAPlaceIsPolledAsItsQueueMoves$", Packages: inQueue,
	},
	{
		Name: "who comes to wait has all others ask again soon", Rule: 0,
		Why:  "where many processes wait for one long-held lock, each that comes makes the others a load",
		File: "internal/waitqueue/view.go",
		Edits: swap(`lastGrant(v.image) != lastGrant(img)`,
			`v.image.Lock.Fence != img.Lock.Fence`),
		Tests: "^TestWhatMovesTheLock$", Packages: inQueue,
	},
	{
		Name: "the line is served backwards", Rule: 0,
		Why:  "whoever came first waits as long as others come",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`t.PushBack(w)`,
			`t.PushFront(w)`),
		Tests: "^TestAThousandWaitersAreServedInOrder$", Packages: inQueue,
	},
	{
		Name: "an heir by any filter", Rule: 0,
		Why:  "it is handed a document that its filter doesn't match any more",
		File: "internal/waitqueue/fairness.go",
		Edits: swap(` || !w.place.taken() && !w.Exact {`,
			` {`),
		Tests: "^TestAnHeirsFilterIsAskedAgain$", Packages: inLocker,
	},
	{
		Name: "the first in line is passed by who asks", Rule: 0,
		Why:  "readers that overlap keep a writer of their own process out for a TTL",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`first.order < w.order && first.state == asleep`,
			`first.order < w.order && first.state == left`),
		Tests: "^TestNobodyAsksPastTheFirst$", Packages: inLocker,
	},
	{
		Name: "a heir's whole image is not seen", Rule: 0,
		Why:  "the line takes the lock for free, and asks in vain while it goes from hand to hand",
		File: "internal/waitqueue/view.go",
		Edits: swap(`img = v.dated(img)`,
			`img = nil`),
		Tests: "^TestTheClockOfAWholeImage$", Packages: inQueue,
	},
	{
		Name: "a stored image passes for a new one", Rule: 21,
		Why:  "others join a shared entry as long as a retried command is answered with what it once did",
		File: "internal/waitqueue/view.go",
		Edits: swap(`return !whole`,
			`return true`),
		Tests: "^TestTheClockOfAWholeImage$", Packages: inQueue,
	},
	{
		Name: "bursts grow though others came", Rule: 0,
		Why:  "a process with many waiters keeps the others waiting for most of a second, each time",
		File: "internal/waitqueue/fairness.go",
		Edits: swap(`if rivals > r.asked {`,
			`if rivals < 0 {`),
		Tests: "^TestLocalRunsGrowWhileNobodyComes$", Packages: inQueue,
	},
	{
		Name: "after a burst it asks at once", Rule: 0,
		Why:  "who polls every few milliseconds finds the lock free by chance only, and may not for seconds",
		File: "internal/waitqueue/fairness.go",
		Edits: swap(`r.until = r.clock() + window`,
			`r.until = r.clock() + window/16`),
		Tests: "^TestTheYieldWindowAfterALocalRun$", Packages: inQueue,
	},
	{
		Name: "the first question by any filter takes a place", Rule: 0,
		Why:  "the waiter keeps back those who stand in line before it, and its own turn in line comes after theirs",
		File: "multilock/acquire.go",
		Edits: swap(`	a.request.Try = true
	held, _, err := a.arrive(ctx)
	if !errors`,
			`	held, p, err := a.arrive(ctx)
	if p != nil {
		t := &Ticket{place: p, turn: make(chan struct{}, 1), waits: make(chan struct{}, 1)}
		held, err := t.wait(ctx)
		return held, a.failed(ctx, err, nil)
	}
	if !errors`),
		Tests: "^TestAWaiterByAnyFilterStandsInLine$", Packages: inLocker,
	},
	{
		Name: "the poller sleeps as long as it likes itself", Rule: 0,
		Why:  "who waits for another holder than the first in line is let in when the first's would have expired",
		File: "internal/waitqueue/backoff.go",
		Edits: swap(`head != w && head.state == asleep && !head.place.taken() {`,
			`head == nil {`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inQueue,
	},
	{
		Name: "the poller isn't told who came", Rule: 0,
		Why:  "it sleeps for those who were there before",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`	d.sort(w)
	d.stirred = d.stirred || t.first() == w
`,
			`	d.sort(w)
`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inQueue,
	},
	{
		Name: "any own holder is waited for", Rule: 0,
		Why:  "where some holders are tolerated, a waiter doesn't ask as long as its process has one, and another one has left",
		File: "internal/waitqueue/backoff.go",
		Edits: swap(`if blocking, free := d.inTheWay(w, ours); len(blocking) > 0 {`,
			`if blocking, free := d.inTheWay(w, img); len(blocking) > 0 && len(ours.Lock.Entries) > 0 {`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inQueue,
	},
	{
		Name: "who was refused asks as the picture says", Rule: 0,
		Why:  "where the server disagrees, a waiter asks a thousand times a second",
		File: "internal/waitqueue/backoff.go",
		Edits: swap(`if w.news != d.view.news {`,
			`if w.rest >= 0 {`),
		Tests: "^TestWho(Was|ever)RefusedRests$", Packages: inQueue,
	},
	{
		Name: "what made way while it asked was before the refusal", Rule: 0,
		Why:  "a waiter that was refused a moment before the release sleeps for a pause",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`	if w.news == news {
`,
			`	if w.news <= news {
`),
		Tests: "^TestNewsOnTheWay$", Packages: inQueue,
	},
	{
		Name: "the image of a later command is older by the server's clock", Rule: 0,
		Why:  "after the clock was set back, or the number, nothing is seen until it has come so far again",
		File: "internal/waitqueue/view.go",
		Edits: swap(`sent <= v.taken && older(`,
			`older(`),
		Tests: "^TestALaterCommandsImageIsNewer$", Packages: inQueue,
	},
	{
		Name: "an entry that was brought back is not seen", Rule: 0,
		Why:  "for the process that released it the lock is free, and it asks in vain",
		File: "internal/waitqueue/view.go",
		Edits: swap(`if !d.over || sent <= d.end {`,
			`if d.id != uuid.Nil {`),
		Tests: "^TestAnEntryThatWasBroughtBackIsSeen$", Packages: inQueue,
	},
	{
		Name: "a removed entry wakes nobody", Rule: 0,
		Why:  "whom a waiter of its own process kept back, that has given up, sleeps for a pause, up to a second and a half",
		File: "multilock/cleanup.go",
		Edits: swap(`c.removed(waitqueue.Key(p.pin), id)`,
			`_ = c.removed`),
		Tests: "^TestARemovedEntryWakesTheNext$", Packages: inLocker,
	},
	{
		Name: "a place waits behind those who have none", Rule: 0,
		Why:  "the first in the document's queue is not handed the lock, and its waiter sleeps until its place must be confirmed",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`e != nil && !e.Value.(*Waiter).place.taken(); e = w.element.Prev() {`,
			`e != nil && e.Value == nil; e = w.element.Prev() {`),
		Tests: "^TestPlacesComeFirst$", Packages: inQueue,
	},
	{
		Name: "places are served in the order in which their waiters came", Rule: 0,
		Why:  "the wait queue waits for one whose turn in the document is not next",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`!before.taken() || before.Seq < w.place.Seq {`,
			`!before.taken() || before.Seq != w.place.Seq {`),
		Tests: "^TestPlacesComeFirst$", Packages: inQueue,
	},
	{
		Name: "a handoff to a ticket that nobody waits for any more is dropped", Rule: 15,
		Why:  "the ticket holds the lock, and nobody knows until its next confirm",
		File: "multilock/wait.go",
		Edits: swap(`		t.place.a.locker.ops.Go(func() { _ = t.receive(turn.Answer) })
`,
			``),
		Tests: "^TestAHandoffToAWaitThatEnds$", Packages: inLocker,
	},
	{
		Name: "a lease that was joined for a waiter that leaves is kept", Rule: 21,
		Why:  "the entry has a holder more than there are, and is never released",
		File: "internal/waitqueue/queues.go",
		Edits: swap(`	if w.state == answered {
		late = w.turn
	}
`,
			`	if w.state == answered && w.turn.Kind != Joined {
		late = w.turn
	}
`),
		Tests: "^TestALeaseIsJoinedForAWaiterThatLeaves$", Packages: inQueue,
	},
}
