// Package scenarios disturbs programs that use the library in ways that are known to
// be hard, a page for each, and checks the result. Each fault and each check after it
// is counted.
//
//   - giveup.go: callers give up at every point of every operation (operations.go).
//   - restart.go: the server is killed under a writer.
//   - claims.go: programs do jobs by priority, and one of them is cut off for good.
package scenarios
