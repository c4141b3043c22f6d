package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// What the callers get for each failure is in docs/verdicts.md, which proptest/verdicts
// makes. These are the cases that it doesn't have.

// wantVerdict fails unless err is of just these verdicts on a lock.
func (p *place) wantVerdict(what string, err error, want ...error) {
	p.Helper()
	var all []error
	for _, v := range []error{doclock.ErrNotAcquired, doclock.ErrLost, doclock.ErrOutcomeUnknown} {
		if errors.Is(err, v) {
			all = append(all, v)
		}
	}
	if !slices.Equal(all, want) {
		p.Errorf("%s: %v is %v, want %v", what, err, all, want)
	}
}

// What fn returns is of another lock, of a write, or of its context. The error of Do
// is none of it, but has its text and what is in it.
func TestWhatFnReturnsIsNoVerdict(t *testing.T) {
	t.Parallel()
	conflict := &doclock.ConflictError{Tag: "write"}
	returned := errors.Join(io.EOF, fmt.Errorf("the other document: %w: %w", doclock.ErrNotAcquired, conflict), doclock.ErrLost, doclock.ErrOutcomeUnknown)
	for name, lost := range map[string]bool{"held": false, "lost": true} {
		virtually(t, name, func(p *place) {
			l := p.plain(relations.Exclusive())
			var want []error
			fn := func(lease doclock.Lease) error {
				if lost {
					must(p, p.mem.Lose(lease))
					want = []error{doclock.ErrLost}
				}
				return returned
			}
			for name, err := range map[string]error{
				"Do":    l.Do(p.Context(), flowers, "write", func(_ context.Context, lease doclock.Lease) error { return fn(lease) }),
				"DoAll": multilock.DoAll(p.Context(), func(_ context.Context, leases multilock.Leases) error { return fn(leases[0]) }, l.Want(flowers, "write")),
			} {
				p.wantVerdict(name, err, want...)
				p.want(err, io.EOF, doclock.ErrConflict)
				if !strings.Contains(err.Error(), "the other document") {
					p.Errorf("%s has not the text of what fn returned: %v", name, err)
				}
			}
			ordinary := errors.Join(io.EOF)
			if err := l.Do(p.Context(), flowers, "write", func(context.Context, doclock.Lease) error { return ordinary }); err != ordinary {
				p.Errorf("an error that is no verdict became %#v", err)
			}
		})
	}
}

// The lock is removed while fn runs. Do has one verdict on the lock, whatever the
// outcome of fn's own write is.
func TestDoReturnsOneVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		fn   func(context.Context, *place, doclock.Lease) error
		want error
	}{
		"a write that was not applied": {func(ctx context.Context, _ *place, l doclock.Lease) error { return l.Update(ctx, plusOne) }, doclock.ErrLost},
		"a write of unknown outcome": {func(ctx context.Context, p *place, l doclock.Lease) error {
			p.mem.LoseRequests(1, locktest.Writes)
			return l.Update(ctx, plusOne)
		}, doclock.ErrLost},
		"a last write of unknown outcome": {func(ctx context.Context, p *place, l doclock.Lease) error {
			p.mem.LoseRequests(1, locktest.Writes)
			return l.UpdateAndRelease(ctx, plusOne)
		}, doclock.ErrOutcomeUnknown},
		"a loss that is known, and a release that goes astray": {func(ctx context.Context, p *place, l doclock.Lease) error {
			p.want(l.Renew(ctx), doclock.ErrLost)
			p.mem.LoseRequests(1, locktest.Releases)
			return nil
		}, doclock.ErrLost},
	} {
		virtually(t, name, func(p *place) {
			err := p.plain(relations.Exclusive()).Do(p.Context(), flowers, "write", func(ctx context.Context, lease doclock.Lease) error {
				p.Change(bson.M{"$unset": bson.M{"lock": 1}})
				return c.fn(ctx, p, lease)
			})
			p.wantVerdict("Do", err, c.want)
			if text := strings.TrimPrefix(c.want.Error(), "doclock: "); strings.Count(err.Error(), text) != 1 {
				p.Errorf("it doesn't say %q once: %v", text, err)
			}
		})
	}
}

// One of several holders of a shared entry writes and releases, after the lease's time
// is up. The update is not executed, and the error says all the same what became of the
// lock.
func TestTheLastUpdateOfASharerHasAVerdict(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		arm  func(*place, *mongo.Client)
		want error
	}{
		"no server can be reached": {func(p *place, c *mongo.Client) { p.mem.Cut(c) }, doclock.ErrOutcomeUnknown},
		"the server refuses it": {func(p *place, _ *mongo.Client) {
			p.mem.Fail(1, mongo.CommandError{Code: 13, Message: "not authorized"}, locktest.Writes)
		}, doclock.ErrLost},
	} {
		virtually(t, name, func(p *place) {
			coll, _ := p.watched()
			readers, others := p.sharing(coll, doclock.TTL(time.Minute)), p.plain(relations.WritePreferring())
			one, two := p.try(readers, "read"), p.try(readers, "read")
			theirs := p.got(others.Acquire(p.Context(), flowers, "write")) // once the entry has expired
			c.arm(p, coll.Database().Client())
			err := one.UpdateAndRelease(p.Context(), plusOne)
			p.wantVerdict("UpdateAndRelease", err, c.want)
			if !errors.As(err, new(mongo.CommandError)) && !mongo.IsTimeout(err) {
				p.Errorf("the driver's error is not in %v", err)
			}
			p.mem.Reconnect(coll.Database().Client())
			p.want(one.Release(p.Context()), doclock.ErrLost)
			p.want(two.Release(p.Context()), doclock.ErrLost)
			p.release(theirs)
		})
	}
}
