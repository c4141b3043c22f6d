// Package fences is a model of rule 28: transactions under a lock that can't come late.
// It is written from the rule's text alone, and shares no code with the library or with
// package model, whose time, queues and tokens it doesn't need: it has no clock at all. An
// entry expires at any moment, a server ends a transaction at any moment, so what the
// search shows needs no punctual machine.
//
// server.go has what servers do: the lock, the fences, transactions by snapshot, a primary
// and a deposed one. client.go has the programs of the clients. world.go has the network,
// the members, and the properties:
//
//   - late: no transaction of a lease is committed after the grant of one that it excludes
//   - told: what a call is told of its writes is true, and stays so; they are there once
//   - waits: nobody waits for a transaction of a lease beside which he may hold the lock
//   - lost: nobody is told that a lease is lost whose entry is there
//   - open: a call that has ended leaves no transaction open
//
// [Without] lists the clauses that can be left out, so that a test can show that each is
// needed.
//
// Limits: one lock; a client acquires it once; a transaction writes one thing. Sharded
// clusters are a single shard here.
package fences

// Without leaves out clauses of rule 28. Each is named as what holds with it.
type Without struct {
	StaysUntilNamed  bool // an expired fenced entry keeps others out until they name its mark
	PrunedIfNamed    bool // a grant drops only those expired fenced entries that it names
	SettledFirst     bool // a mark is settled before it is named
	SettleIsFresh    bool // a settle from before a day is none
	SettleWrites     bool // a settle writes each fence, and so waits for its transaction
	SettleInserts    bool // a settle makes a fence that isn't there
	SettlesAllSlots  bool // a settle has a statement for each slot
	SettleIsMajority bool // what a settle says counts once a majority has it
	RevokedIsTested  bool // a transaction's own statement finds no revoked fence
	FenceIsWritten   bool // a transaction writes its fence
	FenceIsOfSlot    bool // each slot has a fence of its own
	FenceIsOfGrant   bool // each grant has fences of its own
	Gate             bool // transactions of one slot go one at a time, the number is drawn inside
	RemarkedAlone    bool // an entry gets a new mark once all transactions under the old one are decided
	MarkIsAnswered   bool // after a new mark without an answer nothing begins until it has one
	NumberFirst      bool // after a sent commit the number decides, before revoked does
	OldSettleIsNone  bool // a settle says nothing of a commit of yesterday, unless it was applied
	RunsAgainSettled bool // once a commit was sent, the function runs again only after a settle
	DecidedBeforeEnd bool // a lease isn't released while a transaction of it is undecided
	UnknownKeeps     bool // a lease with a transaction of unknown outcome is left to expire
	BreakNames       bool // a break removes a fenced entry only if it names it
	DeleteIsAlone    bool // a delete under the guard demands that no other fenced entry is there
	GoneIsRead       bool // what found nothing counts after a linearizable read
	EndsLateFirst    bool // after a first message of unknown outcome, one more is answered
}
