// Package claims decides which document each claim of this process tries next: an
// acquire that skips locked documents is a claim. It sends nothing.
//
// The claims of one [Locker] with the same filter, sort keys and tag have one
// queue. A claimant enters it, awaits its turn, settles what the turn has
// brought, and leaves:
//
//	w := all.Enter(key, claims.Request{…})
//	defer all.Leave(w)
//	for {
//		turn, err := all.Await(ctx, w)
//		if err != nil {
//			return err // ctx's end, closed, or a failure that all are told
//		}
//		switch turn.Kind {
//		case claims.Ask: // send the acquire, by the filter itself
//		case claims.Look: // look up turn.Limit candidates: all.Found
//		case claims.Try: // send the acquire, narrowed to turn.Candidate
//		case claims.None: // no document is free
//		}
//		all.Settle(w, …)
//	}
//
// # Who does what
//
// A claimant that is alone asks: one command, and the server finds the first
// document. If that document is locked, it does not ask again for a while, and
// the while doubles. Several claimants, or one that doesn't ask, take
// candidates from the window, in the order in which the claimants came. If the
// window is empty, one of them looks up candidates for all.
//
// If nothing is free, a claimant that doesn't wait is told so. The look-up, or
// the ask, that showed it was begun after the claimant came. The other claimants
// sleep. The first of them polls after a pause, or soon after this process has
// released an entry.
//
// # The window
//
// A look-up that returns the first 16 documents would send all processes to the same
// 16. So a process that meets others looks up more documents, up to 512, and tries
// them in a random order. It uses a look-up until the first collision, which shows that
// the others have taken their share of it. A process that meets none looks up fewer
// again. With 16, the order is exact. See window.go.
//
// What was looked up may be false by now. The acquire's own command judges (rule
// 26), so nothing here decides who holds a lock.
package claims
