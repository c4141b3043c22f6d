package doclock_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The rules of the protocol that a lease keeps, each with the trace that
// breaks without it. Each was seen to fail with its rule taken out: the edits
// are the mutants of these rules in proptest/mutants, and are tried again with
// go test ./proptest/mutants -run TestMutantsAreCaught -v -timeout 30m -args -only .

// Rule 4: the validity is anchored at the send of the attempt that was answered.
// Anchored at the reply, a contender enters while the lease is still valid.
func TestRule04AnchoredAtTheSend(t *testing.T) {
	mongotest.RunVirtual(t, "of the only attempt", func(t *testing.T) {
		r := newRig(t)
		lease := r.acquire()
		reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
		renewed := make(chan error, 1)
		go func() { renewed <- lease.Renew(context.Background()) }()
		<-reply.Fired()
		r.clock.Pass(4 * time.Second)
		if err := reply.Let(); err != nil {
			t.Fatal(err)
		}
		if err := <-renewed; err != nil {
			t.Fatal(err)
		}
		if got, want := lease.Remaining(), ttl-4*time.Second-time.Millisecond; got != want {
			t.Errorf("Remaining = %v, want %v", got, want)
		}
	})
	mongotest.RunVirtual(t, "of the acquire", func(t *testing.T) {
		r := newRig(t)
		reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
		granted := make(chan doclock.Lease, 1)
		go func() {
			lease, err := r.locks.TryAcquire(context.Background(), bson.M{"_id": 1}, "write")
			if err != nil {
				r.Error(err)
			}
			granted <- lease
		}()
		<-reply.Fired()
		r.clock.Pass(4 * time.Second)
		if err := reply.Let(); err != nil {
			t.Fatal(err)
		}
		lease := <-granted
		if got, want := lease.Remaining(), ttl-4*time.Second-time.Millisecond; got != want {
			t.Errorf("Remaining = %v, want %v", got, want)
		}
	})
	mongotest.RunVirtual(t, "of the second attempt", func(t *testing.T) {
		r := newRig(t)
		lease := r.acquire()
		r.net.Arm(faultnet.LoseReply, "findAndModify")
		r.onNext("findAndModify", func() { r.clock.Pass(3 * time.Second) }) // the second, after its anchor
		r.clock.Pass(time.Second)
		if err := lease.Renew(t.Context()); err != nil {
			t.Fatal(err)
		}
		if got, want := lease.Remaining(), ttl-3*time.Second-time.Millisecond; got != want {
			t.Errorf("Remaining = %v, want %v", got, want)
		}
	})
}

// Rule 13: the validity ends at the send of whatever releases the lock. Without
// it: released, the reply lost, and still valid.
func TestRule13ValidityEndsAtTheSend(t *testing.T) {
	for name, give := range map[string]func(doclock.Lease) error{
		"Release":          func(l doclock.Lease) error { return l.Release(context.Background()) },
		"UpdateAndRelease": func(l doclock.Lease) error { return l.UpdateAndRelease(context.Background(), increment) },
		"Detach": func(l doclock.Lease) error { // rule 23: a user of the token may release the lock at once
			_, err := l.Detach(context.Background())
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			lease := r.acquire()
			kept := lease.KeepAlive(t.Context())
			var asSent error
			r.onNext("findAndModify", func() { asSent = lease.Err() })
			reply := r.net.Arm(faultnet.DelayReply, "findAndModify")
			given := make(chan error, 1)
			go func() { given <- give(lease) }()
			<-reply.Fired()
			if !errors.Is(asSent, doclock.ErrReleased) {
				t.Errorf("when it was sent: %v", asSent)
			}
			if err := lease.Err(); !errors.Is(err, doclock.ErrReleased) {
				t.Errorf("before the reply: %v", err)
			}
			within(t, kept.Done(), "the kept context")
			if err := reply.Let(); err != nil {
				t.Fatal(err)
			}
			if err := <-given; err != nil {
				t.Errorf("%s = %v", name, err)
			}
		})
	}
}

// Rule 14: a write is numbered in the entry. Without it a repeat applies
// twice; numbered in a short shared list, the first repeats after nine others.
func TestRule14AWriteIsAppliedOnce(t *testing.T) {
	r := newRig(t)
	lease := r.acquire()
	first := r.net.Arm(faultnet.Repeat, "findAndModify")
	for range 10 {
		if err := lease.Update(t.Context(), increment); err != nil {
			t.Fatal(err)
		}
	}
	if err := first.Let(); err != nil {
		t.Fatal(err)
	}
	if got := r.stored().Count; got != 10 {
		t.Errorf("count = %d after 10 writes and a late duplicate of the first", got)
	}
}

// Rule 18: absence from `done` proves "not applied" only if it had an id at the grant
// that is still there: nothing was pushed out of it, and nobody erased the lock, made it
// anew, or restored an older copy.
func TestRule18AbsenceFromDone(t *testing.T) {
	const earlier, full = "after another last write: ", "after eight last writes: "
	erase := func(r *rig) { r.change(bson.M{"$unset": bson.M{"lock": ""}}) }
	anew := func(r *rig) { erase(r); r.takeOver() }
	var copied bson.Raw // before the grant
	restore := func(r *rig) {
		if _, err := r.other.ReplaceOne(context.Background(), bson.M{"_id": 1}, copied); err != nil {
			r.Error(err)
		}
	}
	for _, c := range []struct {
		name    string
		between func(*rig) // the write was applied, its reply lost; then this
		lose    faultnet.Kind
		unknown bool
	}{
		{"applied, erased, the absence is no verdict", erase, faultnet.LoseReply, true},
		{"applied, erased and locked anew", anew, faultnet.LoseReply, true},
		{earlier + "applied, erased and locked anew", anew, faultnet.LoseReply, true},
		{earlier + "applied, restored", restore, faultnet.LoseReply, true},
		{"not applied, taken over", func(r *rig) { r.takeOver() }, faultnet.LoseRequest, true},
		{earlier + "not applied, taken over, the absence is one", func(r *rig) { r.takeOver() }, faultnet.LoseRequest, false},
		{full + "not applied, taken over, the absence is one", func(r *rig) { r.takeOver() }, faultnet.LoseRequest, false},
		{"applied, then eight others pushed it out", func(r *rig) { r.others(8) }, faultnet.LoseReply, true},
		{"applied, then seven others", func(r *rig) { r.others(7) }, faultnet.LoseReply, false},
		{"document deleted", func(r *rig) {
			if _, err := r.other.DeleteOne(context.Background(), bson.M{"_id": 1}); err != nil {
				r.Error(err)
			}
		}, faultnet.LoseReply, true},
	} {
		mongotest.RunVirtual(t, c.name, func(t *testing.T) {
			r := newRig(t)
			before := 0
			switch {
			case strings.HasPrefix(c.name, earlier):
				before = 1
			case strings.HasPrefix(c.name, full):
				before = 8
			}
			for range before {
				if err := r.acquire().UpdateAndRelease(t.Context(), bson.M{"$set": bson.M{"other": 1}}); err != nil {
					t.Fatal(err)
				}
			}
			copied = r.document.Stored()
			lease := r.acquire()
			r.net.Arm(c.lose, "findAndModify")
			r.onNext("findAndModify", func() { c.between(r) })
			err := lease.UpdateAndRelease(t.Context(), increment)
			switch applied := c.lose == faultnet.LoseReply; {
			case c.unknown && !errors.Is(err, doclock.ErrOutcomeUnknown):
				t.Errorf("UpdateAndRelease = %v, want unknown", err)
			case !c.unknown && applied && err != nil:
				t.Errorf("UpdateAndRelease = %v, though it is in done", err)
			case !c.unknown && !applied && (!errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown)):
				t.Errorf("UpdateAndRelease = %v, want plainly lost", err)
			}
		})
	}
}
