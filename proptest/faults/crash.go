package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/child"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	killed       = "holder killed (-9)"
	stopped      = "holder stopped past its lease (SIGSTOP), and continued"
	notBefore    = "a dead holder's lock is granted no earlier than its expiry"
	soonAfter    = "a dead holder's lock is granted within 2 s after its expiry"
	lateRefused  = "a stopped holder's late guarded write is refused"
	lateNoticed  = "a stopped holder notices the loss at its release"
	holderTTL    = 300 * time.Millisecond
	childName    = "holder"
	takeoverTime = 2 * time.Second
)

// Main turns the process into a holder if it was started as one, and then does
// not return. Programs and tests that call [Crash] call it first.
func Main() { child.Main(childName, hold) }

// hold acquires the lock, prints that, and keeps the lease alive. At the end of ctx
// it writes under the guard, releases, and prints both results.
func hold(ctx context.Context, args []string) error {
	client, _, err := child.Connect(args[0])
	if err != nil {
		return err
	}
	docs := client.Database(args[1]).Collection(args[2])
	locks, err := multilock.New(docs, relations.WritePreferring(), func(c *engine.Config) error { c.TTL = holderTTL; return nil }, doclock.ClockTolerance(0), doclock.Owner("holder"),
		doclock.AttemptTimeout(5*time.Second))
	if err != nil {
		return err
	}
	lease, err := locks.Acquire(ctx, bson.M{"_id": args[3]}, "write")
	if err != nil {
		return err
	}
	after := context.WithoutCancel(ctx)
	lease.KeepAlive(after)
	fmt.Println("held")
	<-ctx.Done()
	fmt.Println("update:", word(lease.Update(after, increment)))
	fmt.Println("release:", word(lease.Release(after)))
	return nil
}

func word(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, doclock.ErrLost):
		return "lost"
	default:
		return err.Error()
	}
}

// holder is a process that holds a lock.
type holder struct {
	*child.Process
	said chan string // its lines
}

func startHolder(ctx context.Context, uri, db, coll, id string) (*holder, error) {
	said := make(chan string, 3)
	process, err := child.Start(ctx, childName, []string{uri, db, coll, id}, func(_ *child.Process, line string) { said <- line })
	if err != nil {
		return nil, err
	}
	h := &holder{process, said}
	select {
	case line := <-said:
		if line == "held" {
			return h, nil
		}
		err = fmt.Errorf("the holder says %q", line)
	case <-process.Done():
		err = errors.New("the holder has said nothing")
	case <-ctx.Done():
		err = ctx.Err()
	}
	h.Kill()
	return nil, errors.Join(err, h.End())
}

// Crash starts a holder in its own process, kills or stops it, and acquires its
// lock; n times each.
func Crash(ctx context.Context, db *mongo.Database, uri string, n int, t *tally.Tally) error {
	st, err := newStage(db, uri)
	if err != nil {
		return err
	}
	defer st.close()
	for i := range 2 * n {
		if err := crash(ctx, st, uri, i%2 == 0, t); err != nil {
			return err
		}
	}
	return nil
}

func crash(ctx context.Context, st *stage, uri string, kill bool, t *tally.Tally) error {
	s, err := st.scene(ctx, doclock.ClockTolerance(0))
	if err != nil {
		return err
	}
	h, err := startHolder(ctx, uri, st.doc.Database().Name(), st.doc.Name(), s.id)
	if err != nil {
		return err
	}
	defer func() {
		h.Kill()
		_ = h.End()
	}()
	if kill {
		h.Kill()
	} else {
		h.Stop()
	}
	// A renewal may still be on its way: the entry that is present when the
	// next holder comes is the relevant one.
	before, err := s.stored(ctx)
	if err != nil {
		return err
	}
	lease, err := s.locks.Acquire(ctx, s.filter(), "write")
	if err != nil {
		return err
	}
	after, err := s.stored(ctx)
	if err != nil {
		return err
	}
	old := before.entries("holder")
	if len(old) != 1 {
		return fmt.Errorf("the holder's entries: %v", old)
	}
	granted := time.UnixMilli(lease.Fence()) // a grant's fence is its time, unless there are many grants
	t.Checked(notBefore, 1)
	if granted.Before(old[0].Expires) {
		t.Violated(notBefore, "granted at %v, the entry expired at %v", granted, old[0].Expires)
	}
	t.Checked(soonAfter, 1)
	if late := granted.Sub(old[0].Expires); late > takeoverTime+holderTTL {
		t.Violated(soonAfter, "granted %v after the expiry", late)
	}
	if left := after.entries("holder"); len(left) > 0 {
		t.Violated(notBefore, "the dead holder's entry is beside the new one: %v", left)
	}
	if kill {
		t.Fired(killed, 1)
	} else if err := s.continued(h, t); err != nil {
		return err
	}
	if err := lease.Release(ctx); err != nil {
		return fmt.Errorf("the new holder: %w", err)
	}
	return s.locks.Close(ctx)
}

// continued lets the stopped holder go on.
func (s *scene) continued(h *holder, t *tally.Tally) error {
	t.Fired(stopped, 1)
	h.Continue()
	if err := h.End(); err != nil {
		return fmt.Errorf("the stopped holder: %w", err)
	}
	t.Checked(lateRefused, 1)
	if said := <-h.said; said != "update: lost" {
		t.Violated(lateRefused, "%s", said)
	}
	t.Checked(lateNoticed, 1)
	if said := <-h.said; said != "release: lost" {
		t.Violated(lateNoticed, "%s", said)
	}
	doc, err := s.stored(context.Background())
	if err != nil {
		return err
	}
	if doc.Count != 0 {
		t.Violated(lateRefused, "count %d", doc.Count)
	}
	return nil
}
