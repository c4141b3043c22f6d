// Package mongotest gives tests, the demo and benchmarks a MongoDB-compatible server, and starts one if none is there.
//
// It looks for a server in this order:
//
//  1. MONGODB_URI. If it is set and does not answer, that is a failure, and the search ends.
//  2. A mongod on PATH, started as a replica set of one member.
//  3. Docker or Podman with an engine that answers: mongo:8, as a replica set of one member. DOCLOCK_TEST_IMAGE names
//     another image; it is then the only way that is tried.
//  4. PostgreSQL with the DocumentDB extension, from Debian, behind FerretDB, built from source: on Debian and Ubuntu, as
//     root. It is prepared once, in the user's cache directory, in one to three minutes; from then on it starts in a
//     second or two.
//
// If there is none of them, tests fail with the list of all attempts. They are
// never skipped.
//
// # One server for all
//
// `go test ./...` runs many test binaries at a time, and they share one server.
// It belongs to a process of its own, the supervisor: the first binary that
// needed a server, started again. Every user has a connection to the
// supervisor. The supervisor ends the server and removes its data some time
// after the last user has left. So a user may end in any way, including kill
// -9. If the supervisor itself is killed, the kernel kills the server with it
// (on Linux), and the next supervisor removes the remaining data.
//
// Tests that kill a server have a private one; see [Private].
//
// With DOCLOCK_TEST_MEMORY all tests of a process share a server in memory
// instead, of package locktest. Those that need an address are skipped.
//
// # Time
//
// What is about time runs in virtual time, on a server in memory; see [Virtual].
// On a real server nothing may depend on a punctual machine: no command has less
// than 5 s to be answered, no entry a TTL under 10 s. A test waits for what must
// happen for as long as [Patience], and doesn't sleep.
//
// # Use
//
// In every package with tests that need a server:
//
//	func TestMain(m *testing.M) { mongotest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		collection := mongotest.Database(t).Collection("categories")
//
// To have a server for longer, run
//
//	go run ./internal/mongotest/serve
//
// # Not run by its authors
//
// Ways 2 and 3 were written on machines that have neither a mongod nor a
// container engine, and were tested only with stand-ins (standin_test.go). Way
// 4 was run on Debian, on amd64, but not on Ubuntu.
package mongotest
