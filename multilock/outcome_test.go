package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"pgregory.net/rapid"
)

// cuts are the faults after which a command's outcome is unknown.
var cuts = []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply, faultnet.Stall}

// A filter that may find another document the next time is sent once. The outcome
// stays unknown, and the entry of the command is released, by what the filter demands, or the
// server would look through the collection. Once the acquire has met its document, it is repeated.
func TestUnknownOutcomeOfUnpinnedAcquireIsReported(t *testing.T) {
	t.Parallel()
	for _, cut := range cuts {
		virtually(t, cut.String(), func(p *place) {
			var asked atomic.Int64
			net := faultnet.New()
			coll := p.Through(options.Client().SetDialer(net).SetMonitor(fixture.Monitor(func(command bson.Raw) {
				if comment, _ := command.Lookup("comment").StringValueOK(); comment == "doclock clean-up" && strings.Contains(command.String(), `"flowers"`) {
					asked.Add(1)
				}
			})))
			l := p.locker(coll, relations.Fair(), doclock.AttemptTimeout(time.Second))
			holder := p.try(p.locker(p.coll, relations.Fair(), doclock.TTL(time.Hour)), "read")
			for _, tag := range []string{"read", "write"} { // granted, or waiting
				fault := net.Arm(cut, "findAndModify")
				lease, err := l.Acquire(p.bounded(), byName, tag)
				wait(p, fault.Fired())
				p.want(err, doclock.ErrNotAcquired)
				if lease != nil || driverError(err) == nil {
					p.Errorf("lease %v, error %v", lease, err)
				}
				p.eventually("the entry is looked for no more", func() bool { return l.Leftovers() == 0 })
				p.wantEntries(holder)
				if asked.Swap(0) == 0 {
					p.Error("no clean-up has looked by the filter")
				}
			}
			call := begin(p, func() (doclock.Lease, error) { return l.Acquire(p.bounded(), byName, "write") })
			p.waiting("write")
			wait(p, net.Arm(cut, "findAndModify").Fired())
			p.release(holder)
			p.wantEntries(p.granted(call))
		})
	}
}

// If another user has resumed a lease, its release and its delete did nothing, also
// if the first attempt is of unknown outcome. Without it a document counts as
// deleted that the other user works on.
func TestRule23AnEndOfUnknownOutcomeAfterAnotherResume(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end      func(doclock.Lease, context.Context) error
		released bool // by the other user
		want     error
	}{
		"release":                 {(doclock.Lease).Release, false, doclock.ErrLost},
		"delete":                  {(doclock.Lease).Delete, false, doclock.ErrLost},
		"release after a release": {(doclock.Lease).Release, true, doclock.ErrOutcomeUnknown},
		"delete after a release":  {(doclock.Lease).Delete, true, doclock.ErrOutcomeUnknown},
	} {
		virtually(t, name, func(p *place) {
			coll, net := p.faulty()
			here := p.locker(coll, relations.Exclusive(), doclock.AttemptTimeout(time.Second))
			there := p.locker(p.coll, relations.Exclusive())
			token := p.detach(p.try(there, "write"))
			lease := p.resume(here, token)
			other := p.resume(there, token)
			if c.released {
				p.release(other)
			}
			fault := net.Arm(faultnet.LoseRequest, "findAndModify")
			err := c.end(lease, p.bounded())
			wait(p, fault.Fired())
			p.want(err, c.want)
			if !c.released {
				p.wantEntries(other)
			}
		})
	}
}

// The first request of a release is lost, and somebody ends the entry and is let in: the repeat
// finds nothing while the lease's time lasts, and must not take the removal for its own. Where
// nobody has, it was its own.
func TestAReleaseAfterABreakIsUnknown(t *testing.T) {
	t.Parallel()
	takeOver := func(p *place, lease doclock.Lease) doclock.Lease {
		return p.takesOver(p.plain(relations.WritePreferring()), "write", doclock.Holder{ID: lease.ID(), Fence: lease.Fence()})
	}
	for name, ends := range map[string]func(p *place, lease doclock.Lease){
		"released by itself": nil,
		"broken": func(p *place, lease doclock.Lease) {
			lock, err := admin.Inspect(p.Context(), p.coll, flowers)
			must(p, err)
			must(p, errOf(admin.Break(p.Context(), p.coll, lock.Entries[0])))
			p.try(p.plain(relations.WritePreferring()), "write")
		},
		"taken over":              func(p *place, lease doclock.Lease) { takeOver(p, lease) },
		"taken over, and deleted": func(p *place, lease doclock.Lease) { ok(p, takeOver(p, lease).Delete(p.Context())) },
		"taken over, deleted, and made anew": func(p *place, lease doclock.Lease) {
			ok(p, takeOver(p, lease).Delete(p.Context()))
			ok(p, errOf(p.coll.InsertOne(p.Context(), flowers)))
		},
	} {
		for _, ofToken := range []bool{false, true} {
			virtually(t, fmt.Sprintf("%s, of a token: %v", name, ofToken), func(p *place) {
				l := p.plain(relations.WritePreferring())
				lease := p.try(l, "write")
				if ofToken {
					lease = p.resume(l, p.detach(lease))
				}
				if ends == nil {
					p.mem.LoseReplies(1, locktest.Releases)
					ok(p, lease.Release(p.Context()))
					return
				}
				p.mem.LoseRequests(1, locktest.Releases)
				time.AfterFunc(time.Millisecond/2, func() { ends(p, lease) }) // before the connection breaks
				p.want(lease.Release(p.Context()), doclock.ErrOutcomeUnknown)
			})
		}
	}
}

// driverError is the driver's part of an error.
func driverError(err error) error {
	var command mongo.CommandError
	if errors.As(err, &command) {
		return command
	}
	var exception mongo.WriteException
	if errors.As(err, &exception) {
		return exception
	}
	return nil
}

// In an errgroup the error of one call ends the context of the others. They end, and
// their errors don't have its meaning.
func TestTheContextEndsWithTheErrorOfAnotherCall(t *testing.T) {
	t.Parallel()
	failure := engine.AsFailure(errors.New("no server"))
	failure.Nothing = true // an outage
	for _, cause := range []error{
		&doclock.ConflictError{Tag: "read"}, doclock.ErrNotFound, doclock.ErrNotAcquired, doclock.ErrOutcomeUnknown,
		doclock.ErrLost, doclock.ErrReleased, doclock.ErrClosed, doclock.ErrInvalidArgument,
		fmt.Errorf("doclock: renew: %w", failure),
	} {
		virtually(t, fmt.Sprintf("%.40v", cause), func(p *place) {
			l, others := p.plain(relations.Fair()), p.locker(p.coll, relations.Fair(), doclock.TTL(time.Hour))
			p.try(others, "write")
			var ticket *multilock.Ticket
			for name, call := range map[string]func(context.Context) error{
				"Acquire":             func(ctx context.Context) error { return errOf(l.Acquire(ctx, flowers, "write")) },
				"Acquire, any":        func(ctx context.Context) error { return errOf(l.Acquire(ctx, byName, "write")) },
				"Acquire, SkipLocked": func(ctx context.Context) error { return errOf(l.Acquire(ctx, byName, "write", doclock.SkipLocked())) },
				"AcquireAll":          func(ctx context.Context) error { return errOf(multilock.AcquireAll(ctx, l.Want(flowers, "write"))) },
				"Wait":                func(ctx context.Context) error { return errOf(ticket.Wait(ctx)) },
				"TryAcquire, sent": func(ctx context.Context) error {
					p.mem.Delay(1, time.Minute, locktest.Acquires)
					return errOf(l.TryAcquire(ctx, flowers, "write"))
				},
				"Confirm, ended":    func(ctx context.Context) error { <-ctx.Done(); return errOf(ticket.Confirm(ctx)) },
				"TryAcquire, ended": func(ctx context.Context) error { <-ctx.Done(); return errOf(l.TryAcquire(ctx, flowers, "write")) },
				"Acquire with MaxWait": func(ctx context.Context) error {
					return errOf(l.Acquire(ctx, flowers, "write", doclock.MaxWait(time.Hour)))
				},
			} {
				var err error
				ticket, err = l.Enqueue(p.Context(), flowers, "write")
				must(p, err)
				ctx, cancel := context.WithCancelCause(p.Context())
				time.AfterFunc(time.Second, func() { cancel(cause) })
				begun := time.Now()
				err = call(ctx)
				if took := time.Since(begun); took != time.Second {
					p.Errorf("%s returned after %v", name, took)
				}
				p.wantVerdict(name, err, doclock.ErrNotAcquired)
				p.want(err, context.Canceled)
				for _, of := range []error{doclock.ErrReleased, doclock.ErrClosed, doclock.ErrInvalidArgument, failure} {
					p.wantNot(err, of)
				}
				ok(p, ticket.Cancel(p.Context()))
			}
		})
	}
}

// A last command whose caller gives up before it was sent leaves the lease as it was: it
// is valid, nothing is sent later, and the same call may follow at once.
func TestALastCommandThatIsRevokedKeepsTheLease(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UpdateAndRelease", "Delete", "Detach", "Convert"} {
		last := leaseCalls[name]
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
				err := last(lease, p.within(2*time.Second))
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
				for _, kind := range []doclock.EventKind{doclock.EventReleased, doclock.EventLost} {
					if ended := heard.of(kind); len(ended) > 0 {
						p.Errorf("events of its end: %v", ended)
					}
				}

				cut()
				p.want(last(lease, p.within(time.Second)), context.DeadlineExceeded)
				p.mem.Reconnect(client)
				ok(p, last(lease, p.Context())) // at once
				var total struct{ Total int }
				if name == "UpdateAndRelease" {
					ok(p, p.coll.FindOne(p.Context(), flowers).Decode(&total))
					if total.Total != 2 {
						p.Errorf("it was applied %d times", total.Total-1)
					}
				}
				p.want(lease.Update(p.Context(), plusOne), doclock.ErrReleased)
				time.Sleep(time.Minute)
			})
		}
	}
}

// A last command that is revoked after the lease's time has an unknown outcome for the lock, and observers hear what its
// caller is told, once.
func TestALastCommandThatIsRevokedTooLateIsTold(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"UpdateAndRelease", "Delete", "Detach"} { // a Convert says nothing of the lock
		last := leaseCalls[name]
		virtually(t, name, func(p *place) {
			heard, hear := p.heard()
			client := p.mem.Connect()
			coll := client.Database(p.coll.Database().Name()).Collection(p.coll.Name())
			l := p.locker(coll, relations.WritePreferring(), hear, doclock.TTL(10*time.Second))
			lease := p.try(l, "write")
			p.mem.Cut(client)
			_, _ = l.TryAcquire(p.within(time.Second), doclock.ID(2), "write") // the Locker learns of the outage
			time.Sleep(8 * time.Second)
			p.want(last(lease, p.within(2*time.Second)), doclock.ErrOutcomeUnknown, context.DeadlineExceeded)
			p.mem.Reconnect(client)
			time.Sleep(time.Minute)
			if told := heard.of(doclock.EventOutcomeUnknown); len(told) != 1 {
				p.Errorf("observers were told %d times: %v", len(told), told)
			}
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

// This file has acquires by filters that ask for more than an _id: a condition that the
// acquire's own effect ends, and conditions that a document made by Upsert may not meet.

// A filter that matches a free document stops matching by the acquire's own grant. A
// repeat after a lost reply finds that grant, by each call.
func TestRepeatWhoseFilterItsGrantEnds(t *testing.T) {
	t.Parallel()
	for name, ask := range asks {
		virtually(t, name, func(p *place) {
			l := p.plain(relations.Exclusive())
			for _, replies := range []int{0, 1, 3} {
				p.mem.LoseReplies(replies, locktest.Acquires)
				free := bson.M{"_id": 1, "lock.tags.write.0": bson.M{"$exists": false}}
				lease, err := ask(l, p.Context(), free, "write")
				if ok(p, err); lease != nil {
					p.release(lease)
				}
				p.wantEntries()
			}
		})
	}
}

// The same is true of a waiting entry, which is another one of its tag.
func TestRepeatWhoseFilterItsWaitEnds(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Semaphore(1))
		second := bson.M{"_id": 1, "lock.tags.slot.1": bson.M{"$exists": false}}
		first := p.try(l, "slot")
		p.mem.LoseReplies(2, locktest.Acquires)
		waiter := begin(p, func() (doclock.Lease, error) { return l.Acquire(p.Context(), second, "slot") })
		p.waiting("slot")
		time.Sleep(2 * time.Second)
		p.release(first)
		p.release(p.granted(waiter))

		first = p.try(l, "slot")
		p.mem.LoseReplies(2, locktest.Acquires)
		ticket, err := l.Enqueue(p.Context(), second, "slot")
		must(p, err)
		p.release(first)
		p.release(p.got(ticket.Wait(p.Context())))
	})
}

// A filter's condition holds at the grant, however long the wait was and whether the tag has a
// queue: a holder ends it, and then the lock. Nothing is left of the waiter that was refused.
func TestConditionsHoldAtTheGrant(t *testing.T) {
	t.Parallel()
	open := bson.M{"$ne": true}
	for name, ask := range map[string]func(p *place, l *multilock.Locker, tag string) error{
		"Acquire": func(p *place, l *multilock.Locker, tag string) error {
			return errOf(l.Acquire(p.Context(), bson.M{"_id": 1, "shut": open}, tag))
		},
		"Acquire of any": func(p *place, l *multilock.Locker, tag string) error {
			return errOf(l.Acquire(p.Context(), bson.M{"$expr": bson.M{"$ne": bson.A{"$shut", true}}}, tag))
		},
		"AcquireAll": func(p *place, l *multilock.Locker, tag string) error {
			return errOf(multilock.AcquireAll(p.Context(), l.Want(bson.M{"_id": 1, "$nor": bson.A{bson.M{"shut": true}}}, tag)))
		},
		"Ticket.Wait": func(p *place, l *multilock.Locker, tag string) error {
			ticket, err := l.Enqueue(p.Context(), bson.M{"_id": 1, "shut": open, "lock.tags." + tag + ".5": bson.M{"$exists": false}}, tag)
			if err != nil {
				return err
			}
			return errOf(ticket.Wait(p.Context()))
		},
	} {
		for _, of := range []struct {
			rules       relations.Rules
			holder, tag string
		}{
			{relations.Exclusive(), "write", "write"},
			{relations.Semaphore(1), "slot", "slot"},
			{relations.WritePreferring(), "write", "read"},
			{relations.WritePreferring(), "read", "write"},
			{relations.Fair(), "write", "read"},
		} {
			if name == "Ticket.Wait" && of.rules[of.tag][of.holder].Kind != relations.Assertive {
				continue // it doesn't wait
			}
			virtually(t, fmt.Sprintf("%s, %s behind %s of %v", name, of.tag, of.holder, of.rules), func(p *place) {
				ours := p.plain(of.rules)
				for _, holders := range []*multilock.Locker{p.plain(of.rules), ours} {
					must(p, errOf(p.coll.UpdateOne(p.Context(), flowers, bson.M{"$unset": bson.M{"shut": 1}})))
					holder := p.try(holders, of.holder)
					waiter := begin(p, func() (struct{}, error) { return struct{}{}, ask(p, ours, of.tag) })
					synctest.Wait()
					behind := acquire(p, p.Context(), ours, of.tag)
					synctest.Wait()
					ok(p, holder.Update(p.Context(), bson.M{"$set": bson.M{"shut": true}}))
					ok(p, holder.Release(p.Context()))
					p.want(errOf(waiter.wait()), doclock.ErrNotFound)
					p.release(p.granted(behind))
					time.Sleep(time.Second)
					p.wantEntries()
				}
			})
		}
	}
}

// Whatever the filter and the faults are, an acquire with Upsert is granted a document
// that matches, or leaves none; and it never says of one that matches that it is not there.
func TestUpsertByAnyFilter(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive(), doclock.Upsert())
		next := 100
		rapid.Check(p, func(t *rapid.T) {
			next++
			filter := append(bson.D{{Key: "_id", Value: next}}, anyConditions(t)...)
			there := rapid.Bool().Draw(t, "there")
			if there {
				must(p, errOf(p.coll.InsertOne(p.Context(), bson.D{{Key: "_id", Value: next}, {Key: "a", Value: rapid.SampledFrom(values).Draw(t, "its a")}})))
			}
			matched := p.count(filter) == 1
			p.mem.LoseReplies(rapid.IntRange(0, 2).Draw(t, "lost replies"), locktest.Acquires)
			ctx, cancel := context.WithTimeout(p.Context(), time.Minute)
			defer cancel()
			lease, err := l.TryAcquire(ctx, filter, "write")
			p.mem.LoseReplies(0)
			n := p.count(bson.D{{Key: "_id", Value: next}})
			switch {
			case err == nil:
				p.release(lease)
				if p.count(slices.DeleteFunc(filter, func(c bson.E) bool { return strings.HasPrefix(c.Key, "lock.") })) != 1 {
					t.Fatalf("%v: granted, and the document doesn't match", filter)
				}
			case errors.Is(err, doclock.ErrNotFound) && (matched || !there && n != 0):
				t.Fatalf("%v: %v; it matched: %t; there are %d documents", filter, err, matched, n)
			case there != (n == 1):
				t.Fatalf("%v: %v, and it leaves %d documents", filter, err, n)
			case there && !matched && !errors.Is(err, doclock.ErrNotFound):
				t.Fatalf("%v: %v, want ErrNotFound", filter, err)
			}
		})
	})
}

// count is how many documents match.
func (p *place) count(filter any) int64 {
	p.Helper()
	n, err := p.coll.CountDocuments(p.Context(), filter)
	must(p, err)
	return n
}

var values = []any{nil, 1, 2, "x", true, bson.A{1, nil}, bson.D{{Key: "b", Value: 1}}}

// anyConditions draws conditions beside an _id, one for each path.
func anyConditions(t *rapid.T) (all bson.D) {
	paths := []string{"a", "a.b", "c", "lock.tags.write.0", "lock.fence", "lock.tags.read"}
	for range rapid.IntRange(0, 3).Draw(t, "conditions") {
		path := rapid.SampledFrom(paths).Draw(t, "path")
		if slices.ContainsFunc(all, func(e bson.E) bool { return e.Key == path }) {
			continue
		}
		value := rapid.SampledFrom(values).Draw(t, "value")
		operator := rapid.SampledFrom([]string{"", "$ne", "$gt", "$lt", "$in", "$nin", "$exists", "$not"}).Draw(t, "operator")
		switch operator {
		case "$in", "$nin":
			value = bson.D{{Key: operator, Value: bson.A{value, 7}}}
		case "$exists":
			value = bson.D{{Key: operator, Value: rapid.Bool().Draw(t, "exists")}}
		case "$not":
			value = bson.D{{Key: operator, Value: bson.D{{Key: "$gt", Value: value}}}}
		case "":
		default:
			value = bson.D{{Key: operator, Value: value}}
		}
		all = append(all, bson.E{Key: path, Value: value})
	}
	return all
}
