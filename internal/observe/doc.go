// Package observe delivers events to the observers of one Locker.
//
// An event is emitted wherever something happens: under a mutex, in the goroutine
// of a caller or of a renewal. So [Observer.Emit] only puts it into a queue. One
// goroutine delivers what is in the queue, one event at a time and in order. It
// exists only while the queue has events: nothing has to be closed.
//
// The queue is bounded. An observer that is too slow for the events loses some of
// them, and learns their number. The events of a loss, or of an unknown outcome, are
// the last to be dropped.
//
// A nil [*Observer] observes nothing. It costs nothing: no allocation, no lock, no
// look at a clock.
package observe
