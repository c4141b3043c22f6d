package multilock_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The lock is removed while fn runs. Do reports each fact once, and a write of
// unknown outcome is not also reported as lost.
func TestDoReturnsOneVerdict(t *testing.T) {
	t.Parallel()
	increment := bson.M{"$inc": bson.M{"total": 1}}
	for name, c := range map[string]struct {
		fn   func(context.Context, *doclock.Lease, *faultnet.Net) error
		want error
	}{
		"a write that was not applied": {func(ctx context.Context, l *doclock.Lease, _ *faultnet.Net) error { return l.Update(ctx, increment) }, doclock.ErrLost},
		"a write of unknown outcome": {func(ctx context.Context, l *doclock.Lease, net *faultnet.Net) error {
			net.Arm(faultnet.LoseRequest, "findAndModify")
			return l.Update(ctx, increment)
		}, doclock.ErrOutcomeUnknown},
		"a last write of unknown outcome": {func(ctx context.Context, l *doclock.Lease, net *faultnet.Net) error {
			net.Arm(faultnet.LoseRequest, "findAndModify")
			return l.UpdateAndRelease(ctx, increment)
		}, doclock.ErrOutcomeUnknown},
		"a loss that is known, and a release that goes astray": {func(ctx context.Context, l *doclock.Lease, net *faultnet.Net) error {
			p := l.Renew(ctx)
			net.Arm(faultnet.LoseRequest, "findAndModify")
			if !errors.Is(p, doclock.ErrLost) {
				return errors.New("the loss was not found")
			}
			return nil
		}, doclock.ErrLost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			l := p.locker(coll, relations.Exclusive())
			err := l.Do(t.Context(), flowers, "write", func(ctx context.Context, lease *doclock.Lease) error {
				p.change(bson.M{"$unset": bson.M{"lock": 1}})
				return c.fn(ctx, lease, net)
			})
			p.want(err, c.want)
			for _, other := range []error{doclock.ErrLost, doclock.ErrOutcomeUnknown} {
				if other != c.want {
					p.wantNot(err, other)
				}
				if n := strings.Count(err.Error(), other.Error()); n > 1 {
					t.Errorf("it says %q %d times: %q", other, n, err)
				}
			}
		})
	}
}

// A release that the server refuses can be repeated, also by the last holder of a
// shared entry.
func TestASharedReleaseThatIsRefusedIsTriedAgain(t *testing.T) {
	t.Parallel()
	for name, release := range map[string]func(*doclock.Lease) error{
		"Release": func(l *doclock.Lease) error { return l.Release(context.Background()) },
		"UpdateAndRelease": func(l *doclock.Lease) error {
			return l.UpdateAndRelease(context.Background(), bson.M{"$inc": bson.M{"total": 1}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			coll, net := p.faulty()
			l := p.sharing(coll)
			one, two := p.try(l, "read"), p.try(l, "read")
			p.release(one)
			for range 3 { // the update, the release in its place, and the release that asks what became of it
				net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
					return bson.M{"ok": 0, "code": 13, "errmsg": "not authorized"}
				})
			}
			if err := release(two); err == nil || errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown) {
				t.Errorf("%s = %v", name, err)
			}
			net.Disarm()
			p.release(two)
			p.wantEntries()
		})
	}
}
