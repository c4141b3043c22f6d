package multilock_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func codeOf(err error) int32 {
	var command mongo.CommandError
	errors.As(err, &command)
	return command.Code
}

// jobOf is the _id of the job that a claim takes.
func (p *place) jobOf(l *multilock.Locker, opts ...doclock.AcquireOption) (string, error) {
	var doc struct {
		ID string `bson:"_id"`
	}
	_, err := l.Acquire(p.Context(), pendingJobs, "write", append(opts, doclock.SkipLocked(), byPriority, doclock.Into(&doc))...)
	return doc.ID, err
}

func pendingJob(id string, priority, size int) bson.D {
	return bson.D{{Key: "_id", Value: id}, {Key: "state", Value: "pending"}, {Key: "priority", Value: priority}, {Key: "x", Value: strings.Repeat("x", size)}}
}

// A document that its entry doesn't fit into is passed over, with one event a minute. It ends a claim only if nothing else
// is free, also one that would wait.
func TestAClaimPassesOverADocumentThatCannotTakeTheLock(t *testing.T) {
	virtual(t, func(p *place) {
		_, err := p.coll.InsertMany(p.Context(), []any{pendingJob("full", 9, 16<<20-120), pendingJob("a", 3, 0), pendingJob("b", 2, 0)})
		must(p, err)
		h, hear := p.heard()
		l := p.plain(relations.Exclusive(), hear)
		takes := func(want string) {
			p.Helper()
			if id, err := p.jobOf(l); id != want || err != nil {
				p.Errorf("claimed %q, want %q: %.200v", id, want, err)
			}
		}
		takes("a")
		takes("b")
		for _, wait := range []time.Duration{0, time.Second} { // who knows the document, and waits
			_, err := p.jobOf(l, doclock.MaxWait(wait))
			if p.want(err, doclock.ErrNotFound); codeOf(err) != 0 {
				p.Errorf("%.200v", err)
			}
		}
		begun := time.Now()
		_, err = p.jobOf(p.plain(relations.Exclusive(), hear)) // who doesn't know it
		if codeOf(err) != 17419 || !strings.Contains(err.Error(), "full") || errors.Is(err, doclock.ErrNotFound) || time.Since(begun) > time.Second {
			p.Errorf("%.200v", err)
		}
		time.Sleep(time.Minute)
		takes("a") // its first lease is over
		skipped := h.of(doclock.EventSkipped)
		for _, e := range skipped {
			if e.DocumentID.StringValue() != "full" || codeOf(e.Err) != 17419 {
				p.Errorf("got %.200v", e)
			}
		}
		if len(skipped) != 3 {
			p.Errorf("%d events", len(skipped))
		}
	})
}

// If three documents in a row are refused for one reason, the claim ends with it. The next one passes over all three.
func TestThreeRefusalsEndAClaim(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		refused     []int // of the ask and the tries
		code        int32 // of the first claim's error
		first, next int64 // what it takes, and what the next one takes
	}{
		{[]int{121, 121, 121, 121}, 121, 0, 103},
		{[]int{121, 121, 121, 171, 121}, 0, 102, 101},
		{[]int{121, 121}, 0, 105, 104},
		{[]int{20}, 20, 0, 106}, // which is not about the document
	} {
		virtually(t, fmt.Sprint(c.refused), func(p *place) {
			p.jobs(6)
			l := p.refusing(c.refused...)
			lease, err := l.TryAcquire(p.Context(), pendingJobs, "write", doclock.SkipLocked(), byPriority)
			if codeOf(err) != c.code || err == nil && lease.DocumentID().AsInt64() != c.first {
				p.Errorf("claimed %v: %v", lease, err)
			}
			if err != nil {
				p.want(err, doclock.ErrNotAcquired)
				p.wantNot(err, doclock.ErrNotFound)
			}
			p.claims(l, c.next)
		})
	}
	virtually(t, "the only document", func(p *place) {
		_, err := p.refusing(121).TryAcquire(p.Context(), flowers, "write", doclock.SkipLocked())
		if codeOf(err) != 121 {
			p.Error(err)
		}
	})
}

// refusing makes a Locker whose first commands the server refuses with these codes.
func (p *place) refusing(codes ...int) *multilock.Locker {
	coll, net := p.faulty()
	for _, code := range codes {
		net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any { return bson.M{"ok": 0, "code": code, "errmsg": "refused"} })
	}
	return p.locker(coll, relations.Exclusive())
}

// A queue whose jobs are deleted when they are done needs no filter.
func TestAClaimOfAnyDocument(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	must(t, errOf(p.coll.DeleteMany(t.Context(), bson.M{})))
	must(t, errOf(p.coll.InsertMany(t.Context(), []any{bson.M{"_id": 1}, bson.M{"_id": 2}})))
	l := p.locker(p.coll, relations.Exclusive())
	for _, any := range []any{bson.M{}, bson.D{}} {
		lease := p.got(l.TryAcquire(p.bounded(), any, "write", doclock.SkipLocked()))
		if _, err := l.TryAcquire(p.bounded(), any, "write"); !errors.Is(err, doclock.ErrInvalidArgument) {
			t.Errorf("without SkipLocked: %v", err)
		}
		second := p.got(l.Acquire(p.bounded(), any, "write", doclock.SkipLocked()))
		p.want(errOf(l.TryAcquire(p.bounded(), any, "write", doclock.SkipLocked())), doclock.ErrNotFound)
		p.release(lease)
		p.release(second)
	}
}

// A claim of unknown outcome is repeated, or cleaned up: it leaves one entry.
func TestAClaimOfUnknownOutcomeHoldsOneDocument(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		for _, command := range []string{"findAndModify", "aggregate"} {
			virtually(t, cut.String()+"/"+command, func(p *place) {
				p.jobs(6) // with some for the entries that are left until the clean-up
				coll, net := p.faulty()
				l := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
				locked := int64(2)
				if command == "aggregate" { // a look-up, after an ask that is refused
					p.claim(p.locker(p.coll, relations.Exclusive()))
					locked++
				}
				fault := net.Arm(cut, command)
				p.claim(l)
				wait(p, fault.Fired())
				next := net.Arm(faultnet.LoseReply, "findAndModify") // of a candidate's try
				p.claim(l)
				wait(p, next.Fired())
				p.rest(l)
				p.wantLocked(locked)
			})
		}
	}
}

// wantLocked fails unless so many documents are locked.
func (p *place) wantLocked(want int64) {
	p.Helper()
	n, err := p.coll.CountDocuments(p.Context(), bson.M{"lock.tags.write.0": bson.M{"$exists": true}})
	if err != nil || n != want {
		p.Errorf("%d documents are locked, want %d (%v)", n, want, err)
	}
}

// A late command for one document must not meet the entry in another.
func TestAClaimTriesEachCandidateUnderAnIDOfItsOwn(t *testing.T) {
	t.Parallel()
	p := newJobs(t, 4)
	coll, w := p.watched()
	l, other := p.locker(coll, relations.Exclusive()), p.locker(p.coll, relations.Exclusive())
	p.claims(l, 104, 103)
	must(t, errOf(other.TryAcquire(p.bounded(), bson.M{"_id": 102}, "write")))
	lease := p.claims(l, 101)[0]
	id, n := lease.ID(), 0
	for _, command := range w.All() {
		if bytes.Contains(command, id[:]) {
			n++
		}
	}
	if n != 1 {
		t.Errorf("%d commands have the id of the entry that was granted", n)
	}
}
