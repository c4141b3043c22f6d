// Package faults causes faults on purpose and checks the result: callers that
// give up at every point of every operation, holders that are killed or
// stopped, a server that is killed and restarted, outside writers that replace,
// delete and overwrite a locked document, and a server's clock that is set back
// under waiters of many kinds. Each fault and each check after it is counted.
//
// Package internal/faultnet has the faults of single messages (lost, held,
// repeated, rewritten). The hammer uses them on running clients, the sweep here
// on each command in turn.
package faults
