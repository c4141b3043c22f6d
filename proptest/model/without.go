package model

// Without lists the protocol's rules that are left out. It exists so that
// tests can show that leaving a rule out is noticed; nothing else may set it.
// The comments give the number of the rule in the protocol.
type Without struct {
	// Rules of the commands.
	FenceInRenew         bool // 1: renew matches the id alone
	FenceInWrite         bool // 1: so do writes
	FenceInHandoff       bool // 1: so do handoffs
	Maximum              bool // 2: extend overwrites the expiry
	RepeatExtends        bool // 3: a repeat extends nothing
	Pruning              bool // 5: nothing is pruned
	CooperativeBlocks    bool // 6: a confirm looks at assertive relations only
	ConfirmNeverCreates  bool // 7: a confirm that finds nothing joins anew
	UnknownRefuses       bool // 8: an arrival ignores unknown tags
	UnknownBlocks        bool // 9: a confirm ignores unknown tags
	HeldOrEarlier        bool // 10: a waiting entry waits for all live entries
	JoinRaisesFence      bool // 11: a waiting entry takes its seq without raising lock.fence
	HandoffRepeatExtends bool // 12: a repeated handoff does not extend
	HandoffRepeatRemoves bool // 12: nor does it remove the first id
	Numbering            bool // 14: writes have no number
	NumberInEntry        bool // 14: the numbers are in a short list that all share
	WaitingMustBeThere   bool // 16: a handoff makes a waiting entry that has gone
	SetComparesFence     bool // 17: the compare-and-set handoff does not compare
	RideIsNumbered       bool // 17: the update that rides along has no number
	SetUnsetsNumber      bool // 17: the new entry keeps the old one's number

	// Rules of the clients.
	AnchorAtSend        bool // 4: validity is counted from the answer
	TicketSeq           bool // 7: a confirm's seq is not compared with the ticket's
	BeliefEndsAtSend    bool // 13: belief ends when the release is answered
	ReleaseBothAtOnce   bool // 15: a failed handoff is cleaned up by two commands
	WaitingKeepsPlace   bool // 16: a failed handoff releases the waiting one, too
	InheritedValidity   bool // 17: a compare-and-set handoff gives a fresh TTL
	VerdictFromDone     bool // 17: the update's verdict is taken from the second id's presence
	LookForSecond       bool // 17: the second id isn't looked for after an unknown attempt
	DoneNeedsWitness    bool // 18: absence from done always proves "not applied"
	RemainingFromExpiry bool // 20: an entry that is read is believed for a whole TTL
}
