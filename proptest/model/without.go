package model

// Without lists the protocol's rules that are left out. It exists so that
// tests can show that leaving a rule out is noticed; nothing else may set it.
// The comments give the number of the rule in the protocol.
type Without struct {
	// Rules of the commands.
	FenceInRenew        bool // 1: renew matches the id alone
	FenceInWrite        bool // 1: so do writes
	FenceInHandoff      bool // 1: so do handoffs
	Maximum             bool // 2: extend overwrites the expiry
	RepeatExtends       bool // 3: a repeat extends nothing
	Pruning             bool // 5: nothing is pruned
	CooperativeBlocks   bool // 6: a confirm looks at assertive relations only
	ConfirmNeverCreates bool // 7: a confirm that finds nothing joins anew
	UnknownRefuses      bool // 8: an arrival ignores unknown tags
	UnknownBlocks       bool // 9: a confirm ignores unknown tags
	HeldOrEarlier       bool // 10: a waiting entry waits for all live entries
	JoinRaisesFence     bool // 11: a waiting entry takes its seq without raising lock.fence
	Numbering           bool // 14: writes have no number
	NumberInEntry       bool // 14: the numbers are in a short list that all share
	HeirTries           bool // 15: a new heir that can't have the lock joins as waiting
	ReleaseAnyway       bool // 15: without a grant there is no release
	WaitingMustBeThere  bool // 16: a handoff makes a waiting entry that has gone
	WaitingKeepsPlace   bool // 16: a waiting heir that can't have the lock yet is removed
	SetComparesFence    bool // 17: the compare-and-set handoff does not compare
	SetUnsetsNumber     bool // 17: the heir's entry keeps the lease's number
	SetPushesDone       bool // 17: the lease's id isn't pushed to done

	// Rules of the clients.
	AnchorAtSend        bool // 4: validity is counted from the answer
	TicketSeq           bool // 7: a confirm's seq is not compared with the ticket's
	BeliefEndsAtSend    bool // 13: belief ends when the release is answered
	HeirAsksBySameID    bool // 12: after an unknown handoff the heir asks by a new id
	ReleaseFollows      bool // 15: a handoff that finds nothing is followed by no release
	SetWhereAlone       bool // 17: the compare-and-set goes though others stood in the grant's image
	InheritedValidity   bool // 17: a compare-and-set handoff gives a fresh TTL
	VerdictFromDone     bool // 17: the update's verdict is taken from the heir's presence
	DoneNeedsWitness    bool // 18: absence from done always proves "not applied"
	RemainingFromExpiry bool // 20: an entry that is read is believed for a whole TTL
}
