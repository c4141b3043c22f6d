// Package claims decides which document each claim of this process tries next: an
// acquire that skips locked documents is a claim. It sends nothing.
//
// The claims of one [Locker] with the same filter, sort keys and tag have one
// queue. A claimant enters it, awaits its next step, settles the step's outcome,
// and leaves:
//
//	w := all.Enter(key, claims.Request{…})
//	defer all.Leave(w)
//	for {
//		step, err := all.Await(ctx, w)
//		if err != nil {
//			return err // ctx's end, closed, or a failure of all claimants
//		}
//		switch step.Kind {
//		case claims.Ask: // send the acquire, by the filter itself
//		case claims.Look: // look up step.Limit candidates: all.Found
//		case claims.Try: // send the acquire, narrowed to step.Candidate
//		case claims.None: // no document is free
//		}
//		all.Settle(w, …)
//	}
//
// # Who does what
//
// A claimant that is alone asks: one command, and the server finds the first
// document. If that document is locked, it looks up candidates, and so do the next
// lone claimants: 1, 2, 4 and up to 64 of them before one asks again. Several
// claimants, or one that doesn't ask, take candidates from the window, in the order in
// which the claimants came. If the window is empty, one of them looks up candidates for
// all.
//
// If nothing is free, a claimant that doesn't wait gets None. Each document was then
// not free at some moment since the claimant came: a look-up or an ask that began
// after that has shown it, and each document that the look-up found was tried since,
// with an answer. The other claimants sleep. The first of them polls
// after a pause, or soon after this process has released an entry.
//
// # The window
//
// A process that meets no other one tries the documents of a look-up in their exact
// order, for a tenth of a second. Several processes would try the same ones. So
// a process that meets others tries one of the first documents by chance, among as
// many that one try in five meets a document that another process has taken since:
// see window.go. It looks up anew after eight tries. A claimant that is alone then uses
// only what was looked up for it.
//
// A document that can't take the lock, because it has no room for example, is passed
// over for a minute. A claimant that has met one doesn't wait.
//
// What was looked up may be false by now. The acquire's own command judges (rule
// 26), so nothing here decides who holds a lock.
package claims
