package multilock_test

import (
	"bytes"
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A claim of unknown outcome is repeated, or cleaned up: it leaves one entry.
func TestAClaimOfUnknownOutcomeHoldsOneDocument(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		for _, command := range []string{"findAndModify", "aggregate"} {
			t.Run(cut.String()+"/"+command, func(t *testing.T) {
				t.Parallel()
				p := newJobs(t, 3)
				coll, net := p.faulty()
				l := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
				first := p.claim(p.locker(p.coll, relations.Exclusive()))
				fault := net.Arm(cut, command)
				lease := p.claim(l)
				wait(t, fault.Fired())
				next := net.Arm(faultnet.LoseReply, "findAndModify") // of a candidate's try
				second := p.claim(l)
				wait(t, next.Fired())
				p.rest(l)
				n, err := p.coll.CountDocuments(t.Context(), bson.M{"lock.tags.write.0": bson.M{"$exists": true}})
				if err != nil || n != 3 {
					t.Errorf("%d documents are locked, want those of %v, %v and %v (%v)", n, first.DocumentID(), lease.DocumentID(), second.DocumentID(), err)
				}
			})
		}
	}
}

// An ask whose reply is lost has locked the first document. That is released again, whichever the claim takes then.
func TestAnAskOfUnknownOutcomeLeavesNoEntry(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 3)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
	fault := net.Arm(faultnet.LoseReply, "findAndModify")
	lease := p.claim(l)
	wait(t, fault.Fired())
	p.rest(l)
	n, err := p.coll.CountDocuments(t.Context(), bson.M{"lock.tags.write.0": bson.M{"$exists": true}})
	if err != nil || n != 1 {
		t.Errorf("%d documents are locked, want that of %v (%v)", n, lease.DocumentID(), err)
	}
}

// Close ends a claim at once that waits for the clean-up of an ask of unknown outcome.
func TestCloseEndsAClaimThatCleansUp(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 1)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Exclusive(), short(time.Hour), doclock.AttemptTimeout(time.Minute))
	net.Arm(faultnet.LoseReply, "findAndModify")
	var sent atomic.Int32
	cleaning := make(chan struct{})
	net.Block(func(command string, _ []byte) bool {
		if command != "findAndModify" {
			return false
		}
		n := sent.Add(1)
		if n == 2 {
			close(cleaning)
		}
		return n > 1
	})
	waiting := begin(t, func() (*doclock.Lease, error) {
		return l.Acquire(context.Background(), pendingJobs, "write", doclock.SkipLocked())
	})
	wait(t, cleaning)
	closed := begin(t, func() (struct{}, error) { return struct{}{}, l.Close(context.Background()) })
	_, err := waiting.wait()
	p.want(err, doclock.ErrClosed)
	net.Block(nil)
	net.Reset()
	if _, err := closed.wait(); err != nil {
		t.Error(err)
	}
}

// A late command for one document must not meet the entry in another.
func TestAClaimTriesEachCandidateUnderAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 4)
	coll, w := p.watched()
	l, other := p.locker(coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
	p.claims(l, 104, 103)
	if _, err := other.TryAcquire(p.bounded(), bson.M{"_id": 102}, "write"); err != nil {
		t.Fatal(err)
	}
	lease := p.claims(l, 101)[0]
	sent := w.All()
	id := lease.ID()
	n := 0
	for _, command := range sent {
		if bytes.Contains(command, id[:]) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d commands have the id of the entry that was granted", n)
	}
}
