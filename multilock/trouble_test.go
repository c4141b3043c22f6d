package multilock_test

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var (
	conflicting = mongo.CommandError{Code: 112, Name: "WriteConflict", Message: "write conflict"}
	stepsDown   = mongo.CommandError{Code: 189, Name: "PrimarySteppedDown", Message: "stepped down"}
)

// busy is what a client does that has trouble with its server. What prepare returns runs
// in the trouble.
type busy struct {
	prepare func(p *place, coll *mongo.Collection) func(context.Context)
	only    []locktest.Kind // the commands that fail, or all
}

const many = 110 // leases, more than one command renews

var begunBefore = func(context.Context) {}

// In a minute in which each command fails, a client sends no more commands than in a
// minute without a failure (but for a tenth, by chance), with the repeats that the driver
// sends by itself. Two clients don't send them in step.
func TestTroubleCostsNoCommands(t *testing.T) {
	t.Parallel()
	for name, b := range map[string]busy{
		"acquires, writes and releases": {prepare: works},
		"tries":                         {prepare: tries},
		"waiters that are refused":      {prepare: waits(relations.Exclusive(), flowers)},
		"waiters with a place":          {prepare: waits(relations.Fair(), flowers)},
		"claims":                        {prepare: waits(relations.Exclusive(), byName, doclock.SkipLocked())},
		"a kept lease":                  {prepare: keeps(1)},
		"110 kept leases":               {prepare: keeps(many)},
		"110 kept leases, and reads":    {prepare: keeps(many), only: []locktest.Kind{locktest.Renewals}},
		"clean-ups":                     {prepare: owes},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			well, refusals := len(b.minute(t, nil)), []mongo.CommandError{overloaded}
			if *long {
				refusals = append(refusals, conflicting)
			}
			if name == "acquires, writes and releases" {
				refusals = append(refusals, stepsDown)
			}
			for _, refusal := range refusals {
				one, other := b.minute(t, &refusal), b.minute(t, &refusal)
				t.Logf("%-30s %-32s %5d, and %5d without", name, refusal.Name, len(one), well)
				most := 2*well + well/5 // pauses are drawn
				if name == "tries" {
					most *= 2 // it can't rest for longer than it lasts
				}
				if len(one)+len(other) > most {
					t.Errorf("%s: %d and %d commands, without trouble %d", refusal.Name, len(one), len(other), well)
				}
				inStep := slices.DeleteFunc(one[len(one)/2:], func(at time.Duration) bool { return !slices.Contains(other, at) })
				if len(inStep) > 1 { // one may be a clean-up at the end of the entry's life
					t.Errorf("%s: both send commands after %v", refusal.Name, inStep)
				}
			}
		})
	}
}

// minute is when a client sends its commands.
func (b busy) minute(t *testing.T, refusal *mongo.CommandError) (sent []time.Duration) {
	t.Helper()
	inBubble(t, func(p *place) {
		var documents []any
		for i := range many {
			documents = append(documents, doclock.ID(10+i))
		}
		must(p, errOf(p.coll.InsertMany(p.Context(), documents)))
		var lock sync.Mutex
		var begun time.Time
		coll := p.Through(options.Client().SetMonitor(fixture.Monitor(func(bson.Raw) {
			lock.Lock()
			defer lock.Unlock()
			if at := time.Since(begun); at < time.Minute {
				sent = append(sent, at)
			}
		})))
		work := b.prepare(p, coll)
		if refusal != nil {
			p.mem.Fail(1<<30, *refusal, b.only...)
		}
		lock.Lock()
		begun = time.Now()
		lock.Unlock()
		ctx, cancel := context.WithCancel(p.Context())
		work(ctx)
		time.Sleep(time.Minute)
		cancel()
		p.mem.Fail(0, mongo.CommandError{})
		time.Sleep(time.Minute)
	})
	return sent
}

// works has a hundred goroutines work under locks, as fast as they get them.
func works(p *place, coll *mongo.Collection) func(context.Context) {
	l := p.locker(coll, relations.Exclusive())
	return again(100, func(ctx context.Context, i int) {
		_ = l.Do(ctx, doclock.ID(10+i), "write", func(ctx context.Context, lease doclock.Lease) error {
			time.Sleep(2 * time.Second)
			return lease.Update(ctx, bson.M{"$inc": bson.M{"total": 1}})
		})
	})
}

// tries has eight goroutines try to get a lock that is held, twice a second.
func tries(p *place, coll *mongo.Collection) func(context.Context) {
	p.try(p.locker(p.coll, relations.Exclusive(), doclock.TTL(time.Hour)), "write")
	l := p.locker(coll, relations.Exclusive())
	return again(8, func(ctx context.Context, _ int) {
		_, _ = l.TryAcquire(ctx, flowers, "write")
		time.Sleep(500 * time.Millisecond)
	})
}

// waits has twenty goroutines wait for a lock that is held. After an error they wait a
// second.
func waits(rules relations.Rules, filter any, opts ...doclock.AcquireOption) func(*place, *mongo.Collection) func(context.Context) {
	return func(p *place, coll *mongo.Collection) func(context.Context) {
		p.try(p.locker(p.coll, rules, doclock.TTL(time.Hour)), "write")
		l := p.locker(coll, rules, waitTTL(5*time.Second))
		return again(20, func(ctx context.Context, _ int) {
			_, _ = l.Acquire(ctx, filter, "write", opts...)
			time.Sleep(time.Second)
		})
	}
}

// keeps has leases that are renewed.
func keeps(leases int) func(*place, *mongo.Collection) func(context.Context) {
	return func(p *place, coll *mongo.Collection) func(context.Context) {
		l := p.locker(coll, relations.Exclusive(), doclock.TTL(10*time.Second))
		for i := range leases {
			p.got(l.TryAcquire(p.Context(), doclock.ID(10+i), "write")).KeepAlive(p.Context())
		}
		return begunBefore
	}
}

// owes has acquires whose callers have left, and that may still be executed.
func owes(p *place, coll *mongo.Collection) func(context.Context) {
	l := p.locker(coll, relations.Exclusive(), doclock.TTL(time.Minute))
	for i := range 50 {
		p.mem.LoseRequests(1, locktest.Acquires)
		ctx, cancel := context.WithTimeout(p.Context(), time.Millisecond/2)
		p.want(errOf(l.TryAcquire(ctx, doclock.ID(10+i), "write")), doclock.ErrNotAcquired)
		cancel()
		time.Sleep(time.Millisecond + rand.N(time.Millisecond)) // until the connection breaks; no two clients owe in step
	}
	return begunBefore
}

// again has goroutines do something again and again.
func again(goroutines int, do func(context.Context, int)) func(context.Context) {
	return func(ctx context.Context) {
		for i := range goroutines {
			go func() {
				for ctx.Err() == nil {
					do(ctx, i)
				}
			}()
		}
	}
}

// One of a process's waiters asks. If the server doesn't answer it, the others say so, too, and
// of which document.
func TestAllWaitersTellOfASilentServer(t *testing.T) {
	virtual(t, func(p *place) {
		l := p.plain(relations.Exclusive())
		p.mem.LoseRequests(1000)
		var all []*pending[doclock.Lease]
		for range 5 {
			all = append(all, acquire(p, p.Context(), l, "write", doclock.MaxWait(5*time.Second)))
		}
		silent := 0
		for _, waiter := range all {
			err := errOf(waiter.wait())
			if p.want(err, doclock.ErrNotAcquired); strings.Contains(err.Error(), `"write" on document 1 of `+p.coll.Database().Name()+"."+p.coll.Name()+": no answer yet") {
				silent++
			}
		}
		if silent != 4 {
			p.Errorf("%d of the waiters say so", silent)
		}
	})
}

// A lease is not lost by waiting: the server's trouble may end when a quarter of its
// time is left.
func TestALeaseOutlivesTrouble(t *testing.T) {
	t.Parallel()
	const ttl = 10 * time.Second
	for name, renew := range map[string]func(p *place, l *multilock.Locker, lease doclock.Lease){
		"one that is kept": func(p *place, _ *multilock.Locker, lease doclock.Lease) { lease.KeepAlive(p.Context()) },
		"two that are kept": func(p *place, l *multilock.Locker, lease doclock.Lease) {
			lease.KeepAlive(p.Context())
			p.got(l.TryAcquire(p.Context(), doclock.ID(2), "write")).KeepAlive(p.Context())
		},
		"Renew": func(p *place, _ *multilock.Locker, lease doclock.Lease) {
			time.AfterFunc(ttl/3, func() { ok(p, lease.Renew(p.Context())) })
		},
	} {
		for _, refusal := range []mongo.CommandError{overloaded, conflicting} {
			for seed := range 8 {
				virtually(t, fmt.Sprintf("%s/%s/%d", name, refusal.Name, seed), func(p *place) {
					l := p.plain(relations.Exclusive(), doclock.TTL(ttl))
					lease := p.try(l, "write")
					renew(p, l, lease)
					p.mem.Fail(1<<30, refusal)
					time.Sleep(ttl * 3 / 4)
					p.mem.Fail(0, refusal)
					time.Sleep(ttl / 2)
					ok(p, lease.Err())
					p.release(lease)
				})
			}
		}
	}
}

// How long each way to acquire takes without a server: TryAcquire and MaxWait(0) for
// an AttemptTimeout, also behind others, and nobody waits where the servers refuse the
// credentials. The error begins with the reason, on one line.
func TestHowLongAServerIsAwaited(t *testing.T) {
	t.Parallel()
	const once, long = engine.DefaultTTL / 3, engine.DefaultRetryLimit
	ways := maps.Clone(asks)
	ways["by name"] = func(l *multilock.Locker, ctx context.Context, _ any, tag string, _ ...doclock.AcquireOption) (doclock.Lease, error) {
		return l.TryAcquire(ctx, byName, tag)
	}
	login := mongo.CommandError{Code: 18, Name: "AuthenticationFailed", Message: "Authentication failed."}
	restarts := mongo.CommandError{Code: 91, Name: "ShutdownInProgress", Message: "The server is shutting down."}
	for name, c := range map[string]struct {
		reason   error
		behind   int                     // others
		opts     []doclock.AcquireOption // of Acquire and Do
		deadline time.Duration
		took     time.Duration
		begins   string
	}{
		"away":               {errAway, 0, nil, 0, long, "doclock: not acquired: acquire: " + errAway.Error() + ": server selection error"},
		"it restarts":        {restarts, 0, nil, 0, long, "doclock: not acquired: acquire: " + restarts.Error() + ": server selection error"},
		"away, a deadline":   {errAway, 0, nil, time.Second, time.Second, "doclock: not acquired: "},
		"away, MaxWait(0)":   {errAway, 0, []doclock.AcquireOption{doclock.MaxWait(0)}, 0, once, "doclock: not acquired: "},
		"away, MaxWait(1s)":  {errAway, 0, []doclock.AcquireOption{doclock.MaxWait(time.Second)}, 0, time.Second, "doclock: not acquired: waited for 1s; " + errAway.Error()},
		"behind others":      {errAway, 2 * multilock.MostPerDocument, nil, 0, long, "doclock: not acquired: "},
		"behind, MaxWait(0)": {errAway, 2 * multilock.MostPerDocument, []doclock.AcquireOption{doclock.MaxWait(0)}, 0, once, "doclock: not acquired: "},
		"credentials":        {login, 0, nil, 0, 0, "doclock: not acquired: acquire: authentication failed: (AuthenticationFailed) Authentication failed.: server selection error"},
	} {
		for call, ask := range ways {
			took, opts := c.took, c.opts
			switch call {
			case "TryAcquire", "by name":
				if took = min(took, once); opts != nil {
					took, opts = once, nil
				}
			case "Enqueue":
				if opts != nil {
					took, opts = long, nil
				}
			}
			t.Run(name+"/"+call, func(t *testing.T) {
				outage(t, func(o *pair) {
					o.mem.Down(c.reason)
					time.AfterFunc(2*time.Minute, o.mem.Up) // so that a call that waits for ever fails
					for range c.behind {
						go func() { _, _ = o.here.Enqueue(context.Background(), flowers, "write") }()
					}
					synctest.Wait()
					ctx := context.Background()
					if c.deadline > 0 {
						var cancel context.CancelFunc
						ctx, cancel = context.WithTimeout(ctx, c.deadline)
						defer cancel()
					}
					begun := time.Now()
					_, err := ask(o.here, ctx, flowers, "write", opts...)
					if is := time.Since(begun); is < took || is > took+4*time.Second || took <= once && is > took {
						o.Errorf("it took %v, want %v", is, took)
					}
					if o.wantVerdict(call, err, doclock.ErrNotAcquired); err == nil {
						return
					}
					if !strings.Contains(err.Error(), c.reason.Error()) || took == c.took && !strings.HasPrefix(err.Error(), c.begins) || strings.Contains(err.Error(), "\n") {
						o.Errorf("want %q: %v", c.begins, err)
					}
					if c.deadline > 0 {
						o.want(err, context.DeadlineExceeded)
					}
					o.mem.Up()
					time.Sleep(time.Minute)
				})
			})
		}
	}
}

// A server that takes commands and answers none is the reason of a failure, also where the call
// has had the time of one attempt.
func TestASilentServerIsTheReason(t *testing.T) {
	t.Parallel()
	for name, opts := range map[string][]doclock.AcquireOption{"": nil, "MaxWait(0)": {doclock.MaxWait(0)}, "MaxWait(25s)": {doclock.MaxWait(25 * time.Second)}} {
		for call, ask := range asks {
			if (call == "TryAcquire" || call == "Enqueue") == (opts != nil) { // the others wait, without one
				continue
			}
			for kind, filter := range map[string]any{"by _id": flowers, "by name": byName} {
				t.Run(strings.Join([]string{call, name, kind}, " "), func(t *testing.T) {
					virtual(t, func(p *place) {
						l := p.locker(p.coll, relations.Exclusive())
						p.mem.Delay(1<<30, time.Hour)
						_, err := ask(l, p.Context(), filter, "write", opts...)
						if p.want(err, doclock.ErrNotAcquired); !mongo.IsTimeout(err) {
							p.Error(err)
						}
						p.mem.Delay(0, 0)
						time.Sleep(2 * time.Hour)
					})
				})
			}
		}
	}
}

// overloaded is a server's answer that proves that it did nothing.
var overloaded = mongo.CommandError{
	Code: 462, Name: "IngressRequestRateLimitExceeded", Message: "too many requests", Labels: []string{"SystemOverloadedError", "RetryableError"},
}

// The driver wraps a failed login in several errors, in the command's own error or
// in that of the selection of a server. TestHowLongAServerIsAwaited shows that nobody waits.
func TestWrongCredentialsAreNamed(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll := p.Through(options.Client().SetAuth(options.Credential{AuthMechanism: "SCRAM-SHA-256", Username: "ann", Password: "wrong"}))
	l := p.locker(coll, relations.Fair())
	for range 3 {
		_, err := l.TryAcquire(p.bounded(), flowers, "write")
		if err == nil || !strings.HasPrefix(err.Error(), "doclock: not acquired: acquire: authentication failed: ") || !strings.Contains(err.Error(), "AuthenticationFailed") {
			t.Errorf("got %v", err)
		}
	}
}

// Where no server answers for long, the waiters of a document fail together: the first asks for all, also if the outage has
// cut off its command.
func TestWaitersOfADocumentFailTogether(t *testing.T) {
	t.Parallel()
	for name, cut := range map[string]bool{"between two commands": false, "during a command": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outage(t, func(o *pair) {
				o.try(o.there, "write", doclock.TTL(time.Hour))
				locks := o.plain(relations.Exclusive())
				ended := make(chan error)
				for range 4 {
					go func() { ended <- errOf(locks.Acquire(o.Context(), flowers, "write")) }()
				}
				time.Sleep(10 * time.Second)
				if cut {
					o.mem.Delay(1, time.Minute, locktest.Acquires)
					time.Sleep(2 * time.Second) // longer than a pause
				}
				o.mem.Down(errAway)
				begun := time.Now()
				for range 4 {
					o.want(<-ended, doclock.ErrNotAcquired)
				}
				if took := time.Since(begun); took > engine.DefaultRetryLimit+engine.DefaultTTL/3+2*time.Second {
					o.Errorf("it took %v", took)
				}
			})
		})
	}
}
