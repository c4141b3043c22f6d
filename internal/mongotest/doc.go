// Package mongotest gives tests, the demo and benchmarks a MongoDB-compatible server, and starts one if none is there.
//
// A server is looked for in this order:
//
//  1. MONGODB_URI. If it is set and does not answer, that is a failure, and no reason to go on.
//  2. A mongod on PATH, started as a replica set of one member.
//  3. Docker or Podman with an engine that answers: mongo:8, as a replica set of one member. DOCLOCK_TEST_IMAGE names
//     another image; it is then the only way that is tried.
//  4. PostgreSQL with the DocumentDB extension, from Debian, behind FerretDB, built from source: on Debian and Ubuntu, as
//     root. It is prepared once, in the user's cache directory, in one to three minutes; from then on it starts in a
//     second or two.
//
// If there is none of them, tests fail with the list of what was tried. They are never skipped.
//
// # One server for all
//
// `go test ./...` runs many test binaries at a time, and they share one server. It belongs to a process of its own, the
// supervisor: the binary that first needed a server, started again. Every user holds a connection to the supervisor,
// which ends the server and removes its data when the last user has been gone for a while. So a user may end in any
// way, kill -9 included. If the supervisor itself is killed, the kernel kills the server with it (on Linux), and the
// next supervisor removes the data that was left.
//
// Tests that stop or kill a server have a private one; see [Private].
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
// The ways 2 and 3 were written on machines that have neither a mongod nor a container engine: they were run with
// stand-ins only (standin_test.go). Way 4 was run on Debian, on amd64; on Ubuntu it was not.
package mongotest
