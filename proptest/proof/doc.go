// Package proof runs the whole proof: the model by itself, the model against
// the server, histories, faults and mutants. One command runs it, from the
// project's root:
//
//	go test -C proptest/proof -count=1 -timeout 60m -v -run TestProof .
//
// It prints its progress, and at the end one table. With -args -long it runs
// five times as much. It is a module of its own, so that its tools
// (porcupine, which decides linearizability) are not dependencies of the
// library's users.
package proof
