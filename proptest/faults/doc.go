// Package faults breaks things on purpose and looks at what is left: callers
// that give up at every point of every operation, holders that are killed or
// stopped, a server that is killed and restarted, strangers that replace,
// delete and scribble over a locked document, and a server's clock that is set
// back under waiters of many kinds. Each fault that happened is counted, and so
// is each check after it.
//
// Faults of single messages (lost, held, repeated, rewritten) are
// internal/faultnet's; the hammer throws them at running clients, the sweep
// here at each command in turn.
package faults
