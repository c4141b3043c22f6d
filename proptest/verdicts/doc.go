// Package verdicts has the test that makes docs/errors.md: what the caller of each
// method gets for each way to fail.
package verdicts
