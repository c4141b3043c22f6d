// Package scenarios disturbs programs that use the library in ways that are known to
// be hard, a page for each, and checks the result. Each fault and each check after it
// is counted.
//
//   - giveup.go: callers give up at every point of every operation.
//   - verdicts.go: a known loss, and a write whose reply is lost, while others write.
//   - tampering.go: outside writers replace, delete and overwrite a locked document.
//   - blocked.go: some of many locked documents take no writes for longer than a TTL.
//   - restart.go: the server is killed under a writer.
//   - transfers.go, claims.go, leaders.go: programs of several processes, which are
//     killed and stopped: money is moved under DoAll, jobs are claimed by priority,
//     and candidates campaign with Lead.
//
// Further processes are started by internal/child. Messages meet their faults in
// internal/faultnet, on the way to a server, or in virtual time to one in memory.
package scenarios
