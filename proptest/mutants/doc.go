// Package mutants seeds faults into the product and checks that a test fails.
//
// A test that can't fail proves nothing. So each mutant makes one mistake that
// a careful programmer could make, or removes one of the protocol's rules (with
// the numbers of docs/protocol.md), and names the tests that must notice it. A
// mutant is compiled from a copy of the source that replaces the original for
// the compiler only: the product has no switch, and the checkout is never
// changed. A failed test counts only if it passes without the mutant.
//
// A plain go test runs a few mutants. All of them take some minutes:
//
//	go test ./proptest/mutants -run TestMutantsAreCaught -all -v -timeout 30m
package mutants
