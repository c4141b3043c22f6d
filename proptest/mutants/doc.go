// Package mutants seeds faults into the product and checks that a test fails.
//
// A test that can't fail proves nothing. So each mutant makes one mistake that
// a careful programmer could make, or removes one of the protocol's rules (with
// the numbers of docs/protocol.md), and names the tests that must notice it. A
// mutant is compiled from a copy of the source that replaces the original for
// the compiler only: the product has no switch, and the checkout is never
// changed. A failed test counts only if it passes without the mutant.
//
// There is one for each clause of a rule, and one for each promise of docs/guide.md. A
// new one needs a new clause or promise.
//
// All of them take some minutes. A plain go test only shows that they apply:
//
//	go test ./proptest/mutants -v -timeout 60m -args -only .
package mutants
