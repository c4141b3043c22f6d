// Package waitqueue orders the waiters of one process. For each document it
// knows who waits, and decides who may ask. It sends nothing.
//
// A waiter enters the wait queue of its document, awaits its turn, reports what came of
// it, and leaves:
//
//	w := queues.Enter(document, request, waitqueue.Known{})
//	defer queues.Leave(w)
//	for {
//		handed, err := queues.Await(ctx, w)
//		if err != nil {
//			return err // ctx's end, closed, or no server can be reached
//		}
//		result := … // send the request, or read what a handoff was answered
//		queues.Report(w, result)
//		if result.Held {
//			return nil
//		}
//	}
//
// # The states of a waiter
//
// A waiter is asleep until something wakes it:
//
//	asleep   → asking     it may ask the server: Await returns
//	asleep   → promised   a lease of this process is being handed over to it
//	promised → answered   the handoff has ended: Await returns its answer
//	asleep   → answered   all waiters have failed
//	answered → taking     Await has returned
//	asking, taking → asleep   Report
//	every state → left    Leave
//
// A waiter that is neither asleep nor has left is busy. A waiter whose tag is
// related to a busy waiter's tag does not ask beside it.
//
// # Who asks
//
// The waiters of one tag are served in the order in which they came; waiters with
// a place in the document, in the order of their places. The first one of a tag asks, or
// the first few if the tag ignores itself. It asks if the
// queue's view of the document shows no entry in its way, or if its tag waits in the
// document for those that are. The view is the last
// image that any waiter was answered with, less the entries that this process has
// released since.
//
// The first waiter of all is the poller. Only the poller asks without
// having seen a change: after a pause that is the shortest among the first waiters of
// all tags. Other waiters
// ask after a pause only to keep their places in the document. Whatever the view
// says, a refused waiter rests before it asks again, or waits until an entry has
// left. So a view that differs from the document costs a command now and then
// and no busy loop.
//
// # What wakes whom
//
// A release of this process ([Queues.Released]), an entry that was removed
// ([Queues.Removed]), an answer ([Queues.Report], a handoff's) and
// a waiter that comes or leaves change the view or the order. Each judges the
// queue anew: it wakes those who may ask now, and the poller and those with a place
// in the document if their pauses may have changed. A detach ([Queues.Detached]) wakes
// only these: the entry stays, and this process will not release it.
//
// # Fairness between processes
//
// A released lock is handed over to the next waiter of the process
// ([Queues.Next]). Such a local run is bounded. A yield window follows it, in
// which the process does not ask: other processes get the lock. See pace.go.
//
// # Locks
//
// One mutex guards all queues of a Locker. Under it the leases' locks are taken,
// never the other way round.
package waitqueue
