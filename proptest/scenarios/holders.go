package scenarios

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	holderKilled  = "holder killed (-9)"
	holderStopped = "holder stopped past its lease (SIGSTOP), and continued"
	notBefore     = "a dead holder's lock is granted no earlier than its expiry"
	lateRefused   = "a stopped holder's late guarded write is refused"
	lateNoticed   = "a stopped holder notices the loss at its release"
)

// hold acquires the lock, says so, and keeps the lease alive. At the end of ctx
// it writes under the guard, releases, and says whether both noticed the loss.
func hold(ctx context.Context, j job, docs *mongo.Collection) error {
	locks, err := multilock.New(docs, relations.WritePreferring(),
		doclock.TTL(time.Second), doclock.ClockTolerance(0), doclock.Owner("holder"), doclock.AttemptTimeout(time.Minute))
	if err != nil {
		return err
	}
	lease, err := locks.Acquire(ctx, bson.M{"_id": j.ID}, "write")
	if err != nil {
		return err
	}
	after := context.WithoutCancel(ctx)
	lease.KeepAlive(after)
	say("held")
	<-ctx.Done()
	for _, err := range []error{lease.Update(after, increment), lease.Release(after)} {
		say(errors.Is(err, doclock.ErrLost))
	}
	return nil
}

// deadHolders starts holders in their own processes, kills and stops them, and acquires
// their locks.
func deadHolders(t testing.TB, n int, counts *tally.Tally) {
	st := newStage(t, counts)
	for i := range 2 * n {
		st.scene(doclock.ClockTolerance(0)).crash(i%2 == 0)
	}
}

func (s *scene) crash(kill bool) {
	said := make(chan string, 3)
	j := job{URI: mongotest.URI(s), Database: s.docs.Database().Name(), Collection: s.docs.Name(), ID: s.id}
	holder, err := child.Start(s.Context(), "holder", j, func(_ *child.Process, line string) { said <- line })
	s.must(err)
	defer func() {
		holder.Kill()
		_ = holder.End()
	}()
	if line := <-said; line != `"held"` {
		s.Fatalf("the holder says %s", line)
	}
	if kill {
		holder.Kill()
		s.Fired(holderKilled, 1)
	} else {
		holder.Stop()
		s.Fired(holderStopped, 1)
	}
	// A renewal may still be on its way: the entry that is present when the
	// next holder comes is the relevant one.
	before, _ := s.stored(s.id)
	lease, err := s.locks.Acquire(s.Context(), s.filter(), "write")
	s.must(err)
	after, _ := s.stored(s.id)
	old := before.of("holder")
	if len(old) != 1 {
		s.Fatalf("the holder's entries: %v", old)
	}
	granted := time.UnixMilli(lease.Fence()) // a grant's fence is its time, unless there are many grants
	s.check(notBefore, !granted.Before(old[0].Expires), "granted at %v, the entry expired at %v", granted, old[0].Expires)
	s.check(notBefore, len(after.of("holder")) == 0, "the dead holder's entry is beside the new one: %v", after)
	if !kill {
		holder.Continue()
		s.must(holder.End())
		update, release := <-said, <-said
		doc, _ := s.stored(s.id)
		s.check(lateRefused, update == "true" && doc.Count == 0, "the update was lost: %s; count %d", update, doc.Count)
		s.check(lateNoticed, release == "true", "the release was lost: %s", release)
	}
	s.must(lease.Release(s.Context()))
	s.close()
}
