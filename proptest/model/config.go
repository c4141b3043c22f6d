package model

import "slices"

// config is a world's participants and the limits of its events.
type config struct {
	protocol Protocol
	ruleSets []Rules // one for all clients, or one for each
	tags     []Tag   // one for each client

	ttl, waitTTL, tolerance int64
	tick                    int64 // the clock's advance at once

	patience int64 // an attempt that waits in the server is dropped after this time; 0: never

	limits
	writes   int  // per lease, those that keep the lock
	rounds   int  // leases per client, those of tokens included
	tries    bool // clients may try-acquire
	claims   bool // clients claim
	batches  bool // clients claim in batches
	checks   bool // clients may prove the lease by a read
	handoffs bool // clients hand over

	tokens bool        // clients detach, and resume what others detached
	users  int         // the number of clients, the last ones, that only show tokens
	state  bool        // who shows a token demands a document in its first state, without an update
	lower  map[Tag]Tag // clients convert from the tag to the other
	lowers int         // the number of attempts for each lease that were refused, and one more
	hold   int64       // HoldAtLeast of every acquire; 0: none
	takes  bool        // clients take entries over that others have

	outside outsideWriter              // what outside writers may do
	counts  func(property string) bool // which violations count; nil: all

	members int     // of a replica set; 0: one server
	clocks  []int64 // the members' first offsets from the true time; those that are missing: 0
	routers bool    // the clocks are routers', and each client has one of its own
	skew    int64   // how far the clocks may differ; 0: by the tolerance
	deletes bool    // clients delete the document under their lease
	missing bool    // at first there is no document
}

// limits are how often things may happen in a world.
type limits struct {
	steps         int // of the servers' clocks
	faults        int // attempts that are lost, delayed, or not answered
	beats         int // heartbeats
	outsideWrites int
	breaks        int // an operator breaks a held entry
	elections     int // another member is elected
}

// outsideWriter is what outside writers may do to the document.
type outsideWriter uint8

const (
	nobody  outsideWriter = iota
	deletes               // delete the document, insert it anew
	erases                // erase, spoil or put back the lock as well
)

func (c *config) rules(client int) Rules {
	if len(c.ruleSets) == 1 {
		return c.ruleSets[0]
	}
	return c.ruleSets[client]
}

// isAlone reports whether nobody holds the lock beside a lease of the tag: only then its holder may delete the document.
func (c *config) isAlone(tag Tag) bool {
	return !slices.ContainsFunc(c.ruleSets, func(t Rules) bool {
		return slices.ContainsFunc(t.Tags(), func(other Tag) bool {
			mine, respects := t.limit(tag, other)
			theirs, respected := t.limit(other, tag)
			return !respects || !respected || mine+theirs > 0
		})
	})
}

// Without lists the rules of the protocol that are left out. Tests use it to
// show that they notice a missing rule; nothing else may set it. Each comment
// begins with the rule's number.
type Without struct {
	// Rules of the commands.
	FenceInRenew         bool // 1: renew matches the id alone
	FenceInWrite         bool // 1: writes match the id alone
	FenceInHandoff       bool // 1: handoffs match the id alone
	Maximum              bool // 2: extend overwrites the expiry
	RepeatExtends        bool // 3: a repeat extends nothing
	Pruning              bool // 5: nothing is pruned
	CooperativeBlocks    bool // 6: a confirm checks assertive relations only
	ConfirmNeverCreates  bool // 7: a confirm that finds nothing joins again
	UnknownRefuses       bool // 8: an arrival ignores unknown tags
	UnknownBlocks        bool // 9: a confirm ignores unknown tags
	HeldOrEarlier        bool // 10: a waiting entry waits for all live entries
	JoinRaisesFence      bool // 11: a waiting entry takes its seq without raising lock.fence
	Numbering            bool // 14: writes have no number
	NumberInEntry        bool // 14: the numbers are in a short shared list
	SuccessorTries       bool // 15: a new successor that is not granted joins as waiting
	ReleaseAnyway        bool // 15: without a grant there is no release
	WaitingMustBeThere   bool // 16: a handoff makes a missing waiting entry again
	WaitingKeepsPlace    bool // 16: a waiting successor that is not granted yet is removed
	SetComparesFence     bool // 17: the compare-and-set handoff does not compare
	SetUnsetsNumber      bool // 17: the successor's entry keeps the lease's number
	SetPushesDone        bool // 17: the lease's id isn't pushed to done
	FenceInDetach        bool // 23: a detach matches the id alone
	DetachExtends        bool // 23: a detach does not extend
	NewIDAtResume        bool // 23: a resume keeps the entry's id
	NewFenceAtResume     bool // 23: a resume keeps the entry's fence
	ResumeRaisesFence    bool // 23: a resume does not raise lock.fence
	ResumeUnsetsNumber   bool // 23: a resume keeps the number of the last write
	ResumeAttaches       bool // 23: a resume leaves the entry marked as detached
	EarlierHoldsOut      bool // 23: a resume of an entry that has a handle does not keep others out for that handle's time
	DeleteHoldsOut       bool // 23: a delete does not wait for the time of an earlier handle
	MissIsNoLoss         bool // 23: a token is lost if the caller's filter misses the document
	RepeatFindsItself    bool // 23: a repeat of a resume asks for the caller's filter again
	KeyNeedsFence        bool // 23: a release or a clean-up removes an entry with a key by the id alone
	SetUnsetsKey         bool // 23: the compare-and-set handoff leaves the key to the successor
	FenceInConversion    bool // 24: a conversion matches the id alone
	ConversionIsJudged   bool // 24: a conversion is granted whatever is there
	RefusalKeeps         bool // 24: a refused conversion is a release
	BesideHeld           bool // 24: waiting entries refuse a conversion
	ConversionIsNumbered bool // 24: a refused conversion may be executed again
	ConversionHoldsOut   bool // 24: a conversion ends the old tag's entry before its time
	FenceInTakeOver      bool // 24: a take-over matches the id alone
	TakeOverIsJudged     bool // 24: a take-over is granted whatever is there
	TakeOverOrNothing    bool // 24: a take-over that others keep back ends the named entry all the same
	ExpiredEndsNothing   bool // 24: a take-over of an expired entry passes by those that wait
	TakeOverLeavesBroken bool // 24: a take-over does not leave the fence of what it has removed
	TakeOverDoubts       bool // 24: a take-over that isn't granted has left the named entry alone, whatever its attempts may have done
	HoldsOut             bool // 25: a release removes the entry before its time
	HoldFromGrant        bool // 25: the time is counted from the release
	NewIDAtHold          bool // 25: the entry that holds others out keeps the lease's id
	HoldDropsKey         bool // 25: the entry that holds others out keeps its key

	// What servers do.
	NothingWaits bool // a command that changes nothing is answered although something that it has read is not committed

	// Rules of the clients.
	LinearizableRead      bool // 27: what found nothing counts at once, or after a majority read
	AnchorAtSend          bool // 4: validity is counted from the answer
	TicketSeq             bool // 7: a confirm's seq is not compared with the ticket's
	ValidityEndsAtSend    bool // 13: validity ends when the release is answered
	SuccessorAsksBySameID bool // 12: after an unknown handoff the successor asks by a new id
	ReleaseFollows        bool // 15: a handoff that finds nothing is followed by no release
	IDsAreNew             bool // 19: a client asks by the id of its last lease
	SetWhereAlone         bool // 17: the compare-and-set is sent although the grant's image had other entries
	InheritedValidity     bool // 17: a compare-and-set handoff gives a fresh TTL
	VerdictFromDone       bool // 17: the update's verdict is taken from the successor's presence
	DoneNeedsWitness      bool // 18: absence from done always proves "not applied"
	WitnessIsThere        bool // 18: a witness is one, although done has dropped it
	EmptyProvesNothing    bool // 18: and where done was empty at the grant, while it isn't full
	SetWithoutHold        bool // 25: the compare-and-set is sent although the lease keeps others out for longer
	OldIDFirst            bool // 24: the clean-up after a conversion of unknown outcome releases the new id first
	FoundIsRenewed        bool // 26: an entry that a look-up finds is a grant
	RemainingFromExpiry   bool // 20: an entry that is read, in a check or after a batch, counts as valid for a whole TTL
	DetachDoubts          bool // 23: a detach of unknown outcome that finds nothing says lost
	BrokenIsRead          bool // a release of unknown outcome that finds nothing was executed, whatever an operator has removed
	GoneIsDoubted         bool // and where the document is gone, whoever has deleted it
}
