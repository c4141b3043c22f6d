package model

import "fmt"

// operation is a command of the protocol, as a client sends it.
type operation uint8

const (
	opAcquire operation = iota
	opTry
	opConfirm
	opRenew
	opCheck // a read that proves the lease, as after a batched renewal
	opWrite
	opWriteRelease
	opRelease
	opHandoff // with or without an update in front
	opSet     // compare-and-set handoff
	opRead    // finds the outcome of an unknown attempt
	opDetach
	opResume
	opTouch
	opDowngrade
	opDelete
)

func (o operation) String() string {
	return [...]string{"acquire", "try-acquire", "confirm", "renew", "check", "write", "write-and-release",
		"release", "handoff", "compare-and-set handoff", "read", "detach", "resume", "touch", "downgrade", "delete"}[o]
}

// releases reports whether the operation releases the lock.
func (o operation) releases() bool {
	switch o {
	case opWriteRelease, opRelease, opHandoff, opSet, opDelete:
		return true
	}
	return false
}

// message is one attempt of a command, with everything that the server
// receives.
type message struct {
	op     operation
	from   int8 // the client
	to     int8 // handoffs: the successor
	lease  Lease
	second ID     // handoffs, and the command after one: the successor's id
	waits  bool   // handoffs: the successor waits in the document
	k      int    // writes: the number
	u      Update // writes: the update
	f      int64  // compare-and-set: lock.fence in the image of the grant
	until  int64  // compare-and-set: the end of the validity that is inherited
	key    ID     // detach, resume, touch: the token's
	next   Lease  // downgrade, and the clean-up after one: the new entry
	sent   int64  // true time
	parsed int64  // the server's time when it parsed the command; 0: not yet
	linear bool   // reads: with read concern linearizable, and not majority
}

func (m message) as(op operation) message { m.op = op; return m }

// repeats reports whether the attempt repeats the last one: the same command,
// or another one that releases the same lease, with the same update or none.
func (m message) repeats(last message) bool {
	if m.lease.ID != last.lease.ID {
		return false
	}
	released := m.op.releases() && last.op.releases()
	return (m.op == last.op || released) && m.k == last.k && m.u == last.u || released && m.u == 0
}

// unparsed is the message in its client's form.
func (m message) unparsed() message { m.parsed = 0; return m }

func (m message) handsOver() bool { return m.op == opHandoff || m.op == opSet }

// handoffAgain is the handoff that preceded the plain command.
func (m message) handoffAgain() message {
	if m.f != 0 {
		return m.as(opSet)
	}
	return m.as(opHandoff)
}

// plain is the command that follows a handoff that found nothing.
func (m message) plain() message {
	if m.u != 0 {
		return m.as(opWriteRelease)
	}
	return m.as(opRelease)
}

// String shows the attempt for traces: "client 0: write (a 10 fence 5) update 101 number 1".
func (m message) String() string {
	text := unsaid.Replace(fmt.Sprintf("client %d: %v (%s %d fence %d) update %d number %d key %d", m.from, m.op, m.lease.Tag, m.lease.ID, m.lease.Fence, m.u, m.k, m.key))
	if m.handsOver() {
		text += fmt.Sprintf(" to client %d as %d, which waits: %v, lock.fence was %d", m.to, m.second, m.waits, m.f)
	}
	if m.op == opDowngrade {
		text += fmt.Sprintf(" to %s %d", m.next.Tag, m.next.ID)
	}
	return text
}
