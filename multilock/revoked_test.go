package multilock_test

import (
	"context"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// lasts are the calls that end a lease, besides Release.
var lasts = map[string]func(context.Context, doclock.Lease) error{
	"UpdateAndRelease": func(ctx context.Context, l doclock.Lease) error { return l.UpdateAndRelease(ctx, add) },
	"Delete":           func(ctx context.Context, l doclock.Lease) error { return l.Delete(ctx) },
	"Detach":           func(ctx context.Context, l doclock.Lease) error { return errOf(l.Detach(ctx)) },
	"Downgrade":        func(ctx context.Context, l doclock.Lease) error { return errOf(l.Downgrade(ctx, "read")) },
}

// A last command whose caller gives up before it was sent leaves the lease as it was: it
// is valid, nothing is sent later, and the same call may follow at once.
func TestALastCommandThatIsRevokedKeepsTheLease(t *testing.T) {
	t.Parallel()
	for name, last := range lasts {
		for _, shared := range []bool{false, true} {
			if shared && name != "UpdateAndRelease" { // others refuse a lease of several
				continue
			}
			virtually(t, name, func(p *place) {
				heard, hear := p.heard()
				client := p.mem.Connect()
				rules, tag, opts := relations.WritePreferring(), "write", []doclock.Option{hear}
				if shared {
					tag, opts = "read", append(opts, doclock.ShareInProcess("read"))
				}
				l := p.locker(client.Database(p.coll.Database().Name()).Collection(p.coll.Name()), rules, append(opts, doclock.TTL(time.Hour))...)
				lease := p.try(l, tag)
				if shared {
					p.try(l, tag)
				}
				kept := lease.KeepAlive(p.Context())

				cut := func() {
					p.mem.Cut(client)
					_, _ = l.TryAcquire(p.within(time.Second), doclock.ID(2), tag)
					time.Sleep(time.Minute) // the Locker learns of the outage
				}
				cut()
				begun := time.Now()
				err := last(p.within(2*time.Second), lease)
				p.want(err, context.DeadlineExceeded)
				p.wantNot(err, doclock.ErrOutcomeUnknown)
				if took := time.Since(begun); took != 2*time.Second {
					p.Errorf("it returned after %v", took)
				}
				ok(p, lease.Err())
				ok(p, kept.Err())
				p.mem.Reconnect(client)
				time.Sleep(10 * time.Second)
				if shared {
					ok(p, lease.Err())
				} else {
					p.wantEntries(lease)
				}
				for _, kind := range []doclock.EventKind{doclock.EventReleased, doclock.EventDetached, doclock.EventLost} {
					if ended := heard.of(kind); len(ended) > 0 {
						p.Errorf("events of its end: %v", ended)
					}
				}

				cut()
				p.want(last(p.within(time.Second), lease), context.DeadlineExceeded)
				p.mem.Reconnect(client)
				ok(p, last(p.Context(), lease)) // at once
				var total struct{ Total int }
				if name == "UpdateAndRelease" {
					ok(p, p.coll.FindOne(p.Context(), flowers).Decode(&total))
					if total.Total != 2 {
						p.Errorf("it was applied %d times", total.Total-1)
					}
				}
				p.want(lease.Update(p.Context(), add), doclock.ErrReleased)
				time.Sleep(time.Minute)
			})
		}
	}
}

// A last command that is revoked after the lease's time has an unknown outcome for the lock, and observers hear what its
// caller is told, once.
func TestALastCommandThatIsRevokedTooLateIsTold(t *testing.T) {
	t.Parallel()
	for name, last := range lasts {
		if name == "Downgrade" { // it says nothing of the lock: the lease goes on, or is lost
			continue
		}
		virtually(t, name, func(p *place) {
			heard, hear := p.heard()
			client := p.mem.Connect()
			coll := client.Database(p.coll.Database().Name()).Collection(p.coll.Name())
			l := p.locker(coll, relations.WritePreferring(), hear, doclock.TTL(10*time.Second))
			lease := p.try(l, "write")
			p.mem.Cut(client)
			_, _ = l.TryAcquire(p.within(time.Second), doclock.ID(2), "write") // the Locker learns of the outage
			time.Sleep(8 * time.Second)
			p.want(last(p.within(2*time.Second), lease), doclock.ErrOutcomeUnknown, context.DeadlineExceeded)
			p.mem.Reconnect(client)
			time.Sleep(time.Minute)
			if told := heard.of(doclock.EventOutcomeUnknown); len(told) != 1 {
				p.Errorf("observers were told %d times: %v", len(told), told)
			}
		})
	}
}

// A last command that was sent has ended the lease's validity, also if its caller gives
// up: the server may execute it.
func TestALastCommandThatWasSentEndsTheLease(t *testing.T) {
	t.Parallel()
	for name, last := range lasts {
		virtually(t, name, func(p *place) {
			lease := p.try(p.plain(relations.WritePreferring()), "write")
			p.mem.Delay(1, 2*time.Second)
			err := last(p.within(time.Second), lease)
			p.want(err, context.DeadlineExceeded, doclock.ErrOutcomeUnknown)
			if left := lease.Remaining(); left > 0 {
				p.Errorf("it is valid for %v", left)
			}
			time.Sleep(time.Minute)
		})
	}
}

// A release whose context has ended before the call, as in a defer, waits by itself, for
// an attempt at most, and returns the true answer.
func TestAReleaseInAContextThatHasEnded(t *testing.T) {
	t.Parallel()
	over, cancel := context.WithCancel(context.Background())
	cancel()
	releases := map[string]func(p *place, lease doclock.Lease) error{
		"of a lease":             func(_ *place, lease doclock.Lease) error { return lease.Release(over) },
		"in KeepAlive's context": func(_ *place, lease doclock.Lease) error { return lease.Release(lease.KeepAlive(over)) },
		"after UpdateAndRelease": func(p *place, lease doclock.Lease) error {
			p.want(lease.UpdateAndRelease(p.within(time.Millisecond), bson.M{"$inc": bson.M{"total": 1}}), doclock.ErrOutcomeUnknown)
			return lease.Release(over)
		},
	}
	for name, release := range releases {
		for fault, c := range map[string]struct {
			arm  func(p *place)
			want error
			took time.Duration
		}{
			"late":        {func(p *place) { p.mem.Delay(1, time.Second) }, nil, time.Second},
			"lost":        {func(p *place) { p.erase("write"); p.mem.Delay(1, time.Second) }, doclock.ErrLost, time.Second},
			"no answer":   {func(p *place) { p.mem.Down(errAway) }, doclock.ErrOutcomeUnknown, 4 * time.Second},
			"only delays": {func(p *place) { p.mem.Delay(1<<30, time.Minute, locktest.Releases) }, doclock.ErrOutcomeUnknown, 4 * time.Second},
		} {
			if name == "after UpdateAndRelease" && fault == "no answer" { // nothing is sent, and the lease stands
				continue
			}
			virtually(t, name+", "+fault, func(p *place) {
				lease := p.try(p.plain(relations.WritePreferring(), doclock.TTL(12*time.Second)), "write")
				c.arm(p)
				begun := time.Now()
				err := release(p, lease)
				if took := time.Since(begun).Round(10 * time.Millisecond); took != c.took {
					p.Errorf("it took %v", took)
				}
				if c.want == nil {
					ok(p, err)
				} else {
					p.want(err, c.want)
				}
				p.mem.Delay(0, 0)
				p.mem.Up()
				time.Sleep(time.Minute)
			})
		}
	}
}
