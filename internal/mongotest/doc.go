// Package mongotest gives tests, the demo and benchmarks their server.
//
// Without a word it is a server of package locktest in this process, reached by TCP: Go alone is needed. With
// DOCLOCK_TEST_URI it is that one: one of .ci/ferretdb, .ci/mongo or locktest/serve, or your own. Each test has a database
// of its own there. A server that doesn't answer fails the tests.
//
// What only a database has (rights, validators, indexes) is tested on one alone; see [Real]. A test that kills its server
// starts it by a script; see [Private]. CONTRIBUTING.md lists both.
//
// # Time
//
// What is about time runs in virtual time, on a server in memory; see [Virtual]. On a real server nothing may depend on a
// punctual machine: no command has less than 5 s to be answered, no entry a TTL under 10 s. A test waits for what must
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
package mongotest
