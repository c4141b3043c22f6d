// Package random has the tests that compare random commands in memory with the
// same commands on a server.
package random
