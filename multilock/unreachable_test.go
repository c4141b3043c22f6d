package multilock_test

import (
	"context"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

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
	for name, c := range map[string]struct {
		reason   error
		behind   int                     // others
		opts     []doclock.AcquireOption // of Acquire and Do
		deadline time.Duration
		took     time.Duration
		begins   string
	}{
		"away":               {errAway, 0, nil, 0, long, "doclock: not acquired: acquire: " + errAway.Error() + ": server selection error"},
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
				virtualOutage(t, func(o *outage) {
					o.mem.Down(c.reason)
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
					o.wantVerdict(call, err, doclock.ErrNotAcquired)
					if !strings.Contains(err.Error(), c.reason.Error()) || took == c.took && !strings.HasPrefix(err.Error(), c.begins) || strings.Contains(err.Error(), "\n") {
						o.Errorf("want %q: %v", c.begins, err)
					}
					if c.deadline > 0 {
						o.want(err, context.DeadlineExceeded)
					}
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

// A primary that steps down, or is overloaded, refuses commands for some seconds. An acquire that is refused for too
// long has its error. An overloaded one has done nothing, so what is sent once is sent again. proptest/verdicts has the
// other calls.
func TestAFailOverIsWaitedOut(t *testing.T) {
	t.Parallel()
	for _, refusal := range []mongo.CommandError{
		{Code: 10107, Name: "NotWritablePrimary", Message: "not primary"},
		overloaded,
	} {
		t.Run(refusal.Name, func(t *testing.T) {
			virtualOutage(t, func(o *outage) {
				ctx := context.Background()
				if len(refusal.Labels) > 0 { // nothing was done: what is sent once is sent again
					o.mem.Fail(3, refusal)
					lease := o.got(o.here.Acquire(ctx, byName, "write"))
					o.mem.Fail(3, refusal)
					ok(o, lease.Delete(ctx))
					o.insert()
				}
				o.mem.Fail(1<<30, refusal)
				begun := time.Now()
				_, err := o.here.TryAcquire(ctx, flowers, "write")
				fault{doclock.ErrNotAcquired, []string{refusal.Message}}.check(o, "TryAcquire", err)
				if took := time.Since(begun); took > engine.DefaultTTL/3 {
					o.Errorf("TryAcquire ended after %v", took)
				}
				begun = time.Now()
				_, err = o.here.Acquire(ctx, flowers, "write")
				fault{doclock.ErrNotAcquired, []string{refusal.Message}}.check(o, "Acquire", err)
				least := engine.DefaultRetryLimit
				if len(refusal.Labels) > 0 {
					least /= 3 // the next pause would be too long
				}
				if took := time.Since(begun); took < least || took > engine.DefaultRetryLimit+2*time.Second {
					o.Errorf("it ended after %v", took)
				}
				o.mem.Fail(0, refusal)
				time.Sleep(time.Minute)
			})
		})
	}
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
