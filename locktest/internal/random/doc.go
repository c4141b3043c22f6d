// Package random has the tests that compare random commands in memory, and the
// order of random values, with the server's.
package random
