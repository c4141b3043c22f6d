package lease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Leases that their holder releases or renews together have one command. One that is busy
// has its own, and so has each after a command without an answer.
func TestLeasesTogether(t *testing.T) {
	broken := mongo.CommandError{Message: "connection reset", Labels: []string{"NetworkError"}}
	renewals := func(ctx context.Context, leases []*Lease) []error { return RenewAll(ctx, leases) }
	for name, c := range map[string]struct {
		send func(context.Context, []*Lease) []error
		arm  func(*rig, []*Lease)
		sent []string // sorted
		lost int      // of the three, or 0
	}{
		"release":                             {ReleaseAll, func(*rig, []*Lease) {}, []string{"release all"}, 0},
		"release, and the reply is lost":      {ReleaseAll, loseOnce("release all", broken), []string{"read", "release all", "release all"}, 0},
		"release, and the request is lost":    {ReleaseAll, refuseOnce("release all", broken), []string{"release all", "release all"}, 0},
		"release, and it is refused":          {ReleaseAll, refuseOnce("release all", &engine.Failure{Nothing: true}), []string{"release", "release", "release", "release all"}, 0},
		"release, and one document is locked": {ReleaseAll, lockOne, []string{"read", "release", "release", "release all"}, 0},
		"release, and one has a command out":  {ReleaseAll, busy, []string{"release", "release all"}, 0},
		"release, and one is gone":            {ReleaseAll, func(r *rig, all []*Lease) { r.remove(all[1]) }, []string{"read", "release all"}, 3},
		"release, and one's time is up": {ReleaseAll, func(_ *rig, all []*Lease) {
			all[1].mu.Lock()
			all[1].validity.ttl = aLittle
			all[1].mu.Unlock()
		}, []string{"release", "release all"}, 0},
		"release, and their time is up when it is repeated": {ReleaseAll, func(r *rig, all []*Lease) {
			time.Sleep(ttl*3/4 - time.Second)
			r.server.fault = func(context.Context, call) error {
				r.server.fault = nil
				time.Sleep(2 * time.Second)
				r.remove(all[1]) // and others may have been let in to all of them
				return broken
			}
		}, []string{"read", "release all", "release all"}, 3},
		"renew":                           {renewals, func(*rig, []*Lease) {}, []string{"renew all"}, 0},
		"renew, and the reply is lost":    {renewals, loseOnce("renew all", broken), []string{"read", "renew all", "renew all"}, 0},
		"renew, and it is refused":        {renewals, refuseOnce("renew all", &engine.Failure{Nothing: true}), []string{"read", "renew", "renew", "renew", "renew all"}, 0},
		"renew, and one is being renewed": {renewals, busy, []string{"renew", "renew all"}, 0},
		"renew, and one is gone":          {renewals, func(r *rig, all []*Lease) { r.remove(all[1]) }, []string{"read", "renew all"}, 1},
		"renew, and the request is lost":  {renewals, refuseOnce("renew all", broken), []string{"read", "renew all", "renew all"}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				leases := r.many(3)
				time.Sleep(ttl / 4)
				c.arm(r, leases)
				var failed int
				for _, err := range c.send(r.Context(), leases) {
					if err != nil {
						failed++
						want := doclock.ErrLost
						if c.lost == len(leases) { // nobody knows which
							want = doclock.ErrOutcomeUnknown
						}
						r.wantErr("of the lost", err, want)
					}
				}
				sent := r.server.sent()
				slices.Sort(sent)
				if !slices.Equal(sent, c.sent) || failed != c.lost {
					r.Errorf("sent %v, %d lost", sent, failed)
				}
			})
		})
	}
}

// once is an error that the first command of this name meets.
func once(name string, err error) func(call) error {
	met := false
	return func(c call) error {
		if c.name != name || met {
			return nil
		}
		met = true
		return err
	}
}

// before has a command meet one of these errors, and not be executed.
func before(errs ...func(call) error) func(context.Context, call) error {
	return func(_ context.Context, c call) error {
		for _, meet := range errs {
			if err := meet(c); err != nil {
				return err
			}
		}
		return nil
	}
}

func loseOnce(name string, err error) func(*rig, []*Lease) {
	return func(r *rig, _ []*Lease) { r.server.lose = once(name, err) }
}

func refuseOnce(name string, err error) func(*rig, []*Lease) {
	return func(r *rig, _ []*Lease) { r.server.fault = before(once(name, err)) }
}

// lockOne has a command for all wait at the second document, as for a transaction that has written it.
func lockOne(r *rig, all []*Lease) {
	r.server.fault = func(ctx context.Context, c call) error {
		if c.name != "release all" {
			return nil
		}
		_, _ = r.engine.ReleaseAll(ctx, []engine.Grant{all[0].grant})
		<-ctx.Done()
		return ctx.Err()
	}
}

// busy has a lease's own command under way for a second.
func busy(_ *rig, all []*Lease) {
	all[1].renewing <- struct{}{}
	time.AfterFunc(aLittle, all[1].renewing.Unlock)
}

// A renewal of several that no server answers says why, of each.
func TestRenewalOfSeveralThatFails(t *testing.T) {
	for _, limit := range []time.Duration{engine.DefaultRetryLimit, 2 * time.Second} { // until the leases' end, or not
		virtual(t, func(r *rig) {
			down := errors.New("no server is there")
			r.fault(func(context.Context, call) error { return down })
			for _, err := range RenewAll(r.Context(), r.many(3)) {
				r.wantErr("Renew", err, down)
				if lost := limit == engine.DefaultRetryLimit; errors.Is(err, doclock.ErrLost) != lost {
					r.Errorf("lost should be %v: %v", lost, err)
				}
			}
		}, func(c *engine.Config) { c.RetryLimit = limit })
	}
}

// A joint release that the server refuses for one document has released the others: no loss.
func TestReleaseOfSeveralThatIsRefusedInPart(t *testing.T) {
	virtual(t, func(r *rig) {
		leases := r.many(3)
		// as engine.failed makes it: engine.TestACommandThatIsRefusedInPart
		refused := errors.Join(&engine.Failure{Nothing: true}, mongo.WriteException{WriteErrors: []mongo.WriteError{{Index: 2, Code: 121}}})
		r.server.fault = func(ctx context.Context, c call) error {
			if c.name != "release all" {
				return nil
			}
			if missing, err := r.engine.ReleaseAll(ctx, []engine.Grant{leases[0].grant, leases[1].grant}); missing != 0 || err != nil {
				t.Fatal(missing, err)
			}
			return refused
		}
		for i, err := range ReleaseAll(r.Context(), leases) {
			if err != nil {
				t.Errorf("lease %d was released: %v", i, err)
			}
		}
	})
}

// A joint release or renewal that fails for one document is done for the others: nobody waits for them, or doubts them.
func TestCommandForSeveralThatFailsInPart(t *testing.T) {
	for name, c := range map[string]struct {
		send func(context.Context, []*Lease) []error
		code int
	}{
		"release, a conflict":       {ReleaseAll, 112},
		"release, an unknown error": {ReleaseAll, 1},
		"renew, a conflict":         {RenewAll, 112},
		"renew, an unknown error":   {RenewAll, 1},
	} {
		t.Run(name, func(t *testing.T) {
			virtual(t, func(r *rig) {
				leases := r.many(3)
				failure := &engine.Failure{Passes: c.code == 112}
				if failure.Passes {
					failure.Trouble = engine.WriteConflict
				}
				// as engine.failed makes it: engine.TestACommandThatIsRefusedInPart
				failed := failedInPart{failure, mongo.WriteException{WriteErrors: []mongo.WriteError{{Index: 2, Code: c.code}}}}
				together := 0
				r.server.fault = func(ctx context.Context, call call) error {
					others := []engine.Grant{leases[0].grant, leases[1].grant}
					switch call.name {
					case "release all":
						together++
						_, _ = r.engine.ReleaseAll(ctx, others)
						return failed
					case "renew all":
						together++
						_, _ = r.engine.RenewAll(ctx, others)
						return failed
					case "release", "renew":
						if call.documents[0] == 102 {
							return failed
						}
					}
					return nil
				}
				for i, err := range c.send(r.Context(), leases) {
					if (err == nil) != (i < 2) {
						t.Errorf("lease %d: %v", i, err)
					}
				}
				if together != 1 {
					t.Errorf("sent %d commands for all", together)
				}
			})
		})
	}
}

// failedInPart is what the engine makes of an answer that has refused some statements.
type failedInPart struct {
	*engine.Failure
	why error
}

func (failedInPart) Error() string { return "failed in part" }

func (f failedInPart) Unwrap() []error { return []error{f.Failure, f.why} }

// With a context that has ended, a renewal of several sends nothing, as that of one.
func TestRenewalOfSeveralAfterTheEndOfItsContext(t *testing.T) {
	for _, n := range []int{1, 3} {
		virtual(t, func(r *rig) {
			ctx, cancel := context.WithCancel(r.Context())
			cancel()
			for _, err := range RenewAll(ctx, r.many(n)) {
				if errors.Is(err, doclock.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
					t.Errorf("of %d: %v", n, err)
				}
			}
			synctest.Wait()
			time.Sleep(time.Second)
			r.wantSent()
		})
	}
}

// A loss that a renewal of several finds is a loss, also if its context ends with the leases.
func TestALossThatARenewalOfSeveralFinds(t *testing.T) {
	for _, n := range []int{1, 3} {
		virtual(t, func(r *rig) {
			leases := r.many(n)
			r.remove(leases[0])
			err := RenewAll(KeepAlive(r.Context(), leases), leases)[0]
			if !errors.Is(err, doclock.ErrLost) {
				t.Errorf("of %d: %v", n, err)
			}
		})
	}
}

// briefAndLong are two leases of one Locker, of which the first lives for two seconds. No server answers for five.
func (r *rig) briefAndLong() []*Lease {
	var leases []*Lease
	for i, d := range []time.Duration{2 * time.Second, time.Minute} {
		leases = append(leases, r.New(r.grantBy(100+i, "write", engine.Terms{TTL: d}), r.engine.Clocks()))
	}
	r.fault(func(context.Context, call) error { return errors.New("no server is there") })
	time.AfterFunc(5*time.Second, func() { r.fault(nil) })
	return leases
}

// A release of several is repeated for as long as that of the one that lasts longest.
func TestReleaseOfSeveralTTLs(t *testing.T) {
	virtual(t, func(r *rig) {
		leases := r.briefAndLong()
		err := ReleaseAll(r.Context(), leases)[1]
		if err != nil || len(r.entries(leases[1])) != 0 {
			t.Errorf("%v; in the document are %v", err, r.entries(leases[1]))
		}
	})
}

// A lost lease doesn't stop the renewal of the others.
func TestRenewalOfSeveralTTLs(t *testing.T) {
	virtual(t, func(r *rig) {
		errs := RenewAll(r.Context(), r.briefAndLong())
		r.wantErr("the brief one", errs[0], doclock.ErrLost)
		r.wantErr("the long one", errs[1], nil)
	})
}

// An overload that is over while the leases are valid costs a renewal of several none, as that of one.
func TestRenewalOfSeveralInAnOverload(t *testing.T) {
	for _, n := range []int{1, 3} {
		for range 20 { // the pauses have a random part
			virtual(t, func(r *rig) {
				leases := r.many(n)
				time.Sleep(ttl / 3)
				r.fault(func(context.Context, call) error {
					return overloaded{&engine.Failure{Nothing: true, Passes: true, Trouble: engine.Overloaded}}
				})
				time.AfterFunc(ttl/2, func() { r.fault(nil) })
				for _, err := range RenewAll(r.Context(), leases) {
					r.wantErr("Renew", err, nil)
				}
			})
		}
	}
}

// overloaded is the answer of a server with too much to do.
type overloaded struct{ error }

func (overloaded) Error() string { return "overloaded" }

func (o overloaded) Unwrap() error { return o.error }
