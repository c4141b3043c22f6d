package scenarios

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	knownLoss  = "a loss that is known, and the release's first attempt disturbed"
	manyWrites = "a write whose reply is lost, and others' last writes before its repeat"
	remembered = "a verdict of the server on a lease stays"
	oneVerdict = "a write's verdict is applied, not applied or unknown, and the first two are true"
)

// calls are those under a lease.
var calls = map[string]func(context.Context, *doclock.Lease) error{
	"Renew":            func(ctx context.Context, l *doclock.Lease) error { return l.Renew(ctx) },
	"Update":           func(ctx context.Context, l *doclock.Lease) error { return l.Update(ctx, increment) },
	"UpdateAndRelease": func(ctx context.Context, l *doclock.Lease) error { return l.UpdateAndRelease(ctx, increment) },
	"Release":          func(ctx context.Context, l *doclock.Lease) error { return l.Release(ctx) },
}

// verdicts disturbs commands after a known loss, and writes whose entry others
// replace before their repeat.
func verdicts(t testing.TB, n int, counts *tally.Tally) {
	st := newStage(t, counts)
	for range (n + 5) / 6 {
		for _, learn := range []string{"Renew", "Update"} {
			for _, kind := range []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply, faultnet.Cut} {
				st.scene().disturbRelease(learn, kind)
			}
		}
		for _, last := range []int{0, 7, 8, 12} { // `done` holds 8
			for _, kind := range []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply} {
				for _, write := range []string{"Update", "UpdateAndRelease"} {
					st.scene().disturbWrite(write, kind, last)
				}
			}
		}
	}
}

func (s *scene) disturbRelease(learn string, kind faultnet.Kind) {
	lease, others := s.holds("write"), s.others()
	_, err := s.overtake(others)
	s.must(err)
	err = calls[learn](s.Context(), lease)
	s.check(remembered, errors.Is(err, doclock.ErrLost), "the loss is not found: %v", err)
	s.net.Arm(kind, "findAndModify")
	s.Fired(knownLoss, 1)
	err = lease.Release(s.Context())
	s.check(remembered, errors.Is(err, doclock.ErrLost), "after a %v, Release = %v", kind, err)
	s.must(others.Close(s.Context()))
	s.close()
}

// disturbWrite has others write for the last time before the write's repeat.
func (s *scene) disturbWrite(write string, kind faultnet.Kind, last int) {
	lease, others := s.holds("write"), s.others()
	s.net.Arm(kind, "findAndModify")
	var between sync.Once
	var failed error
	s.net.ArmWhere(faultnet.LoseRequest, func(command string, _ bson.Raw) bool { // the repeat
		if command == "findAndModify" {
			between.Do(func() { failed = s.lastWritesOf(others, last) })
		}
		return false
	})
	err := calls[write](s.Context(), lease)
	s.net.Disarm()
	s.must(failed)
	s.Fired(manyWrites, 1)
	doc, _ := s.stored(s.id)
	lost, unknown := errors.Is(err, doclock.ErrLost), errors.Is(err, doclock.ErrOutcomeUnknown)
	right := err == nil && doc.Count == 1 || lost && !unknown && doc.Count == 0 || unknown && !lost
	s.check(oneVerdict, right, "%v, %d last writes of others, then %s = %v; count %d", kind, last, write, err, doc.Count)
	_ = lease.Release(s.Context())
	s.must(others.Close(s.Context()))
	s.close()
}

// overtake lets another holder in, as after an expiry.
func (s *scene) overtake(others *multilock.Locker) (*doclock.Lease, error) {
	if err := s.change(bson.M{"$unset": bson.M{"lock.tags": ""}}); err != nil {
		return nil, err
	}
	return others.TryAcquire(s.Context(), s.filter(), "write")
}

func (s *scene) lastWritesOf(others *multilock.Locker, n int) error {
	for range n {
		lease, err := s.overtake(others)
		if err != nil {
			return err
		}
		if err := lease.UpdateAndRelease(s.Context(), bson.M{"$inc": bson.M{"others": 1}}); err != nil {
			return err
		}
	}
	return nil
}
