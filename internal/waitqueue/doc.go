// Package waitqueue orders the waiters of one process. For each document it
// knows who waits, and decides who may ask. It sends nothing.
//
// A waiter enters the wait queue of its document, awaits its next step, settles the
// step's result, and leaves:
//
//	w := queues.Enter(document, request, waitqueue.Known{})
//	defer func() { late := queues.Leave(w); … }()
//	for {
//		step, err := queues.Await(ctx, w)
//		if err != nil {
//			return err // ctx's end, closed, or no server can be reached
//		}
//		if step.Kind == waitqueue.Joined {
//			return nil // with a lease of step.Entry
//		}
//		result := … // Ask: send the request; Answer: read what a handoff was answered
//		queues.Settle(w, result)
//		if result.Held != uuid.Nil {
//			return nil
//		}
//	}
//
// # The states of a waiter
//
// A waiter is asleep until something wakes it:
//
//	asleep   → asking     it may ask the server: Await returns Ask
//	asleep   → promised   a lease of this process is being handed over to it
//	promised → answered   the handoff has ended: Await returns Answer
//	asleep   → answered   a shared entry was joined for it: Await returns Joined;
//	                      or all waiters have failed
//	answered → taking     Await has returned
//	asking, taking → asleep   Settle
//	every state → left    Leave
//
// A waiter that is neither asleep nor has left is busy. A waiter whose tag is
// related to a busy waiter's tag does not ask beside it.
//
// # Who asks
//
// The waiters of one tag are served in the order in which they came; waiters with
// a place in the document, in the order of their places. A waiter asks if the
// queue's view of the document shows no entry in its way. The view is the last
// image that any waiter was answered with, less the entries that this process has
// released since. A waiter of another tag does not overtake an earlier one that
// has a chance.
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
// ([Queues.Removed]), an answer ([Queues.Settle], a handoff's, [Check.End]) and
// a waiter that comes or leaves change the view or the order. Each judges the
// queue anew: it wakes those who may ask now, and the poller if its pause may
// have changed. However many waiters ask or rest, that takes few visits: see
// sleepers.go. A detach ([Queues.Detached]) wakes the poller only: the entry
// stays, and this process will not release it.
//
// # Fairness between processes
//
// A released lock is handed over to the next waiter of the process
// ([Queues.Next]). Such a local run is bounded. A yield window follows it, in
// which the process does not ask: other processes get the lock. See fairness.go.
//
// # Locks
//
// One mutex guards all queues of a Locker. Under it the leases' locks are taken,
// never the other way round.
package waitqueue
