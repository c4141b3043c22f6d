// Package mutants seeds faults into the product and demands that a test fails.
//
// A test that can't fail proves nothing. So each mutant makes one mistake that
// a careful programmer could make, or takes one of the protocol's rules away
// (their numbers are those of docs/protocol.md), and names the tests that must
// notice it. It is compiled from a copy of the source, laid over the checkout
// for the compiler only: no switch stands in the product, and the checkout is
// never touched. A test that fails counts only if it passes without the
// mutant.
//
// A handful of mutants are tried by a plain go test, all of them in some
// minutes by
//
//	go test ./proptest/mutants -run TestMutantsAreCaught -all -v -timeout 30m
package mutants
