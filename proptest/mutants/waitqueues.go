package mutants

// waitQueues let waiters of one process sleep too long, or overtake each other.
var waitQueues = []Mutant{
	{
		Name: "a release wakes no waiter", Rule: 0,
		Why:  "a waiter that knows that its own process had the lock sleeps until it would have expired",
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
		Name: "a poller that gave up stays the poller", Rule: 0,
		Why:  "no waiter asks, and the wait queue waits for ever",
		File: "internal/waitqueue/queues.go",
		Edits: swap(`	d.set(w, left)
	d.remove(w)
	d.judge()`,
			`	d.set(w, left)
	d.remove(w)`),
		Tests: "^TestThePollerHasASuccessor$", Packages: inQueue,
	},
	{
		Name: "a local run has no end", Rule: 0,
		Why:  "one process's waiters hand the lock to each other, and others wait for ever",
		File: "internal/waitqueue/fairness.go",
		Edits: swap(`if r.handed == longestRun || r.clock()-r.first > r.most {`,
			`if r.handed < 0 && r.clock()-r.first > r.most {`),
		Tests: "^(TestALocalRunIsBounded|TestAThousandWaitersAreServedInOrder)$", Packages: inQueue,
	},
	{
		Name: "the pauses for a place grow with the wait", Rule: 0,
		Why:  "if a document queue has entries of several processes, each turn takes as long as the next waiter's pause",
		File: "internal/waitqueue/backoff.go",
		Edits: swap(`		waited = 0
`,
			`		waited *= 1
`),
		Tests: "^TestAPlaceIsPolledAsItsQueueMoves$", Packages: inQueue,
	},
	{
		Name: "a new waiter makes all others ask again soon", Rule: 0,
		Why:  "if many processes wait for one long-held lock, each new waiter makes all others send commands",
		File: "internal/waitqueue/view.go",
		Edits: swap(`lastGrant(v.image) != lastGrant(img)`,
			`v.image.Lock.Fence != img.Lock.Fence`),
		Tests: "^TestWhatMovesTheLock$", Packages: inQueue,
	},
	{
		Name: "the wait queue is served backwards", Rule: 0,
		Why:  "the first waiter waits as long as others come",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`t.PushBack(w)`,
			`t.PushFront(w)`),
		Tests: "^TestAThousandWaitersAreServedInOrder$", Packages: inQueue,
	},
	{
		Name: "a successor by a filter that is not exact", Rule: 0,
		Why:  "it is handed a document that its filter may not match any more",
		File: "internal/waitqueue/fairness.go",
		Edits: swap(` || !w.place.taken() && !w.Exact {`,
			` {`),
		Tests: "^TestASuccessorsFilterIsAskedAgain$", Packages: inLocker,
	},
	{
		Name: "waiters ask past the first of the wait queue", Rule: 0,
		Why:  "overlapping readers keep a writer of their own process out for a TTL",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`first.order < w.order && first.state == asleep`,
			`first.order < w.order && first.state == left`),
		Tests: "^TestNoWaiterAsksPastTheFirst$", Packages: inLocker,
	},
	{
		Name: "a successor's whole image is not used", Rule: 0,
		Why:  "to the wait queue the lock looks free, and it asks in vain while the lock is handed over",
		File: "internal/waitqueue/view.go",
		Edits: swap(`img = v.dated(img)`,
			`img = nil`),
		Tests: "^TestTheClockOfAWholeImage$", Packages: inQueue,
	},
	{
		Name: "a stored image counts as a new one", Rule: 21,
		Why:  "holders join a shared entry as long as retried commands are answered with stored images",
		File: "internal/waitqueue/view.go",
		Edits: swap(`return !whole`,
			`return true`),
		Tests: "^TestTheClockOfAWholeImage$", Packages: inQueue,
	},
	{
		Name: "local runs grow though others came", Rule: 0,
		Why:  "a process with many waiters makes the others wait for most of a second, each time",
		File: "internal/waitqueue/fairness.go",
		Edits: swap(`if rivals > r.asked {`,
			`if rivals < 0 {`),
		Tests: "^TestLocalRunsGrowWhileNobodyComes$", Packages: inQueue,
	},
	{
		Name: "after a local run the process asks at once", Rule: 0,
		Why:  "a waiter that polls every few milliseconds finds the lock free only by chance, and perhaps not for seconds",
		File: "internal/waitqueue/fairness.go",
		Edits: swap(`r.until = r.clock() + window`,
			`r.until = r.clock() + window/16`),
		Tests: "^TestTheYieldWindowAfterALocalRun$", Packages: inQueue,
	},
	{
		Name: "the first acquire by an unpinned filter takes a place", Rule: 0,
		Why:  "the waiter blocks waiters before it in the wait queue, and its own turn comes after theirs",
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
		Tests: "^TestAWaiterByAnyFilterWaitsForItsTurn$", Packages: inLocker,
	},
	{
		Name: "the poller sleeps by its own wait only", Rule: 0,
		Why:  "a waiter for another holder is let in when the holder that the poller waits for would have expired",
		File: "internal/waitqueue/backoff.go",
		Edits: swap(`head != w && head.state == asleep && !head.place.taken() {`,
			`head == nil {`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inQueue,
	},
	{
		Name: "the poller doesn't learn of a new waiter", Rule: 0,
		Why:  "it sleeps as long as the earlier waiters need",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`	d.sort(w)
	d.stirred = d.stirred || t.first() == w
`,
			`	d.sort(w)
`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inQueue,
	},
	{
		Name: "a waiter waits for any own holder", Rule: 0,
		Why:  "if some holders are tolerated, a waiter doesn't ask while its process has one, although another one has left",
		File: "internal/waitqueue/backoff.go",
		Edits: swap(`if blocking, free := d.inTheWay(w, ours); len(blocking) > 0 {`,
			`if blocking, free := d.inTheWay(w, img); len(blocking) > 0 && len(ours.Lock.Entries) > 0 {`),
		Tests: "^TestTheOthersReleaseIsNoticed$", Packages: inQueue,
	},
	{
		Name: "a refused waiter asks as the view says", Rule: 0,
		Why:  "if the server disagrees with the view, a waiter asks a thousand times a second",
		File: "internal/waitqueue/backoff.go",
		Edits: swap(`if w.news != d.view.news {`,
			`if w.rest >= 0 {`),
		Tests: "^TestWho(Was|ever)RefusedRests$", Packages: inQueue,
	},
	{
		Name: "a release during a question counts as before the refusal", Rule: 0,
		Why:  "a waiter that was refused a moment before the release sleeps for a pause",
		File: "internal/waitqueue/queue.go",
		Edits: swap(`	if w.news == news {
`,
			`	if w.news <= news {
`),
		Tests: "^TestNewsOnTheWay$", Packages: inQueue,
	},
	{
		Name: "the server's clock orders the images of later commands", Rule: 0,
		Why:  "after the clock, or lock.fence, was set back, no image is used until it has caught up",
		File: "internal/waitqueue/view.go",
		Edits: swap(`sent <= v.taken && older(`,
			`older(`),
		Tests: "^TestALaterCommandsImageIsNewer$", Packages: inQueue,
	},
	{
		Name: "an entry that was brought back is not seen", Rule: 0,
		Why:  "to the process that released it the lock looks free, and it asks in vain",
		File: "internal/waitqueue/view.go",
		Edits: swap(`if !d.over || sent <= d.end {`,
			`if d.id != uuid.Nil {`),
		Tests: "^TestAnEntryThatWasBroughtBackIsSeen$", Packages: inQueue,
	},
	{
		Name: "a removed entry wakes no waiter", Rule: 0,
		Why:  "a waiter that was blocked by a waiter of its own process that gave up sleeps for a pause, up to a second and a half",
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
