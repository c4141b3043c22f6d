package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	knownLoss   = "a loss that is known, and the release's first attempt disturbed"
	manyWrites  = "a write whose reply is lost, and others' last writes before its repeat"
	remembered  = "a verdict of the server on a lease stays"
	oneVerdict  = "a write's verdict is applied, not applied or unknown, and the first two are true"
	mostOfDone  = 12 // last writes of others before a repeat: `done` holds 8
	entriesPath = "lock.tags"
)

// Verdicts disturbs commands after a known loss, and writes whose entry others
// replace before their repeat. n times, each on its own network.
func Verdicts(ctx context.Context, db *mongo.Database, uri string, n int, t *tally.Tally) error {
	var all []func(context.Context, *scene, *tally.Tally) error
	for _, learn := range []func(context.Context, *doclock.Lease) error{
		func(ctx context.Context, l *doclock.Lease) error { return l.Renew(ctx) },
		func(ctx context.Context, l *doclock.Lease) error { return l.Update(ctx, increment) },
	} {
		for _, kind := range []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply, faultnet.Cut} {
			all = append(all, disturbRelease(learn, kind))
		}
	}
	for _, others := range []int{0, 7, 8, mostOfDone} {
		for _, kind := range []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply} {
			for name, write := range lastWrites {
				all = append(all, disturbWrite(name, write, kind, others))
			}
		}
	}
	for range n {
		errs := make([]error, len(all))
		var wg sync.WaitGroup
		for i, disturb := range all {
			wg.Go(func() { errs[i] = onItsOwn(ctx, db, uri, disturb, t) })
		}
		wg.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

func onItsOwn(ctx context.Context, db *mongo.Database, uri string, f func(context.Context, *scene, *tally.Tally) error, t *tally.Tally) error {
	st, err := newStage(db, uri)
	if err != nil {
		return err
	}
	defer st.close()
	s, err := st.scene(ctx)
	if err != nil {
		return err
	}
	if err := f(ctx, s, t); err != nil {
		return err
	}
	return s.locks.Close(ctx)
}

func disturbRelease(learn func(context.Context, *doclock.Lease) error, kind faultnet.Kind) func(context.Context, *scene, *tally.Tally) error {
	return func(ctx context.Context, s *scene, t *tally.Tally) error {
		lease, err := s.locks.TryAcquire(ctx, s.filter(), "write")
		if err != nil {
			return err
		}
		others, err := s.blocker()
		if err != nil {
			return err
		}
		defer others.Close(ctx)
		if _, err := s.overtake(ctx, others); err != nil {
			return err
		}
		t.Checked(remembered, 2)
		if err := learn(ctx, lease); !errors.Is(err, doclock.ErrLost) {
			t.Violated(remembered, "the loss is not found: %v", err)
		}
		s.net.Arm(kind, "findAndModify")
		t.Fired(knownLoss, 1)
		if err := lease.Release(ctx); !errors.Is(err, doclock.ErrLost) {
			t.Violated(remembered, "after a %v, Release = %v", kind, err)
		}
		return nil
	}
}

var lastWrites = map[string]func(context.Context, *doclock.Lease) error{
	"Update":           func(ctx context.Context, l *doclock.Lease) error { return l.Update(ctx, increment) },
	"UpdateAndRelease": func(ctx context.Context, l *doclock.Lease) error { return l.UpdateAndRelease(ctx, increment) },
}

func disturbWrite(name string, write func(context.Context, *doclock.Lease) error, kind faultnet.Kind, n int) func(context.Context, *scene, *tally.Tally) error {
	return func(ctx context.Context, s *scene, t *tally.Tally) error {
		lease, err := s.locks.TryAcquire(ctx, s.filter(), "write")
		if err != nil {
			return err
		}
		others, err := s.blocker()
		if err != nil {
			return err
		}
		defer others.Close(ctx)
		s.net.Arm(kind, "findAndModify")
		var between sync.Once
		var failed error
		s.net.ArmWhere(faultnet.LoseRequest, func(command string, _ bson.Raw) bool { // the repeat
			if command == "findAndModify" {
				between.Do(func() { failed = s.lastWritesOf(ctx, others, n) })
			}
			return false
		})
		err = write(ctx, lease)
		s.net.Disarm()
		if failed != nil {
			return failed
		}
		t.Fired(manyWrites, 1)
		doc, readErr := s.stored(ctx)
		if readErr != nil {
			return readErr
		}
		t.Checked(oneVerdict, 1)
		lost, unknown := errors.Is(err, doclock.ErrLost), errors.Is(err, doclock.ErrOutcomeUnknown)
		what := fmt.Sprintf("%v, %d last writes of others, then %s = %v; count %d", kind, n, name, err, doc.Count)
		switch {
		case err != nil && lost == unknown:
			t.Violated(oneVerdict, "%s", what)
		case err == nil && doc.Count != 1, lost && doc.Count != 0:
			t.Violated(oneVerdict, "%s", what)
		}
		_ = lease.Release(ctx)
		return nil
	}
}

// overtake lets another holder in, as after an expiry.
func (s *scene) overtake(ctx context.Context, others *multilock.Locker) (*doclock.Lease, error) {
	if err := update(bson.M{"$unset": bson.M{entriesPath: ""}})(ctx, s); err != nil {
		return nil, err
	}
	return others.TryAcquire(ctx, s.filter(), "write")
}

func (s *scene) lastWritesOf(ctx context.Context, others *multilock.Locker, n int) error {
	for range n {
		lease, err := s.overtake(ctx, others)
		if err != nil {
			return err
		}
		if err := lease.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"others": 1}}); err != nil {
			return err
		}
	}
	return nil
}
