// Package transfers has many clients in several processes move money among a
// few accounts, several accounts at a time, locked by multilock.DoAll, while
// processes are killed and stopped. An auditor that locks all accounts checks
// that the sum never changes.
//
// No lock makes several writes atomic: a process may be killed between two of
// them. So a transfer first writes its intent into its first account. Whoever
// locks an account with an intent finishes it. The sum counts what an intent has
// not moved yet.
//
// A write stores a balance that was computed from what was read under the lock. It
// does not increment. So a write that comes late, or two holders at a time, change
// the sum.
package transfers
