package gocronlock_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	gocronlock "github.com/doclock/doclock/integrations/gocron"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/go-co-op/gocron/v2"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const apart = time.Second + 200*time.Millisecond

// campaign runs an Elector until end is called.
func campaign(t *testing.T, e *gocronlock.Elector) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- e.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("Run returned %v", err)
		}
	})
}

// A leader that no longer reaches the server says no before another one says yes, and until its lease ends it says yes.
func TestElectorSaysNoAtTheEndOfTheLease(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		server := mongotest.Memory(t)
		name := mongotest.Database(t).Name()
		own, err := server.Connect(options.Client())
		must(t, err)
		one := gocronlock.NewElector(locks(t, own.Database(name).Collection("jobs")), "leader", apart)
		defer campaign(t, one)()
		time.Sleep(apart - time.Millisecond)
		if err := one.IsLeader(t.Context()); !errors.Is(err, doclock.ErrNotAcquired) {
			t.Errorf("before its time: %v", err)
		}
		time.Sleep(2 * time.Millisecond)
		must(t, one.IsLeader(t.Context()))
		two := gocronlock.NewElector(locks(t, server.Client().Database(name).Collection("jobs")), "leader", apart)
		end := campaign(t, two)
		time.Sleep(5 * time.Minute)
		must(t, one.IsLeader(t.Context()))
		must(t, server.Cut(own, errors.New("cut")))
		cut := time.Now()
		for one.IsLeader(t.Context()) == nil {
			if two.IsLeader(t.Context()) == nil {
				t.Fatal("both lead")
			}
			time.Sleep(time.Millisecond)
		}
		if led := time.Since(cut); led < 5*time.Second || led > 10*time.Second {
			t.Errorf("it led for %v after the cut", led)
		}
		if err := one.IsLeader(t.Context()); !errors.Is(err, doclock.ErrLost) {
			t.Errorf("after its lease: %v", err)
		}
		time.Sleep(10 * time.Second)
		must(t, two.IsLeader(t.Context()))
		must(t, server.Cut(own, nil))
		end()
		if err := two.IsLeader(t.Context()); !errors.Is(err, doclock.ErrReleased) {
			t.Errorf("after Run: %v", err)
		}
		time.Sleep(10 * time.Second)
		must(t, one.IsLeader(t.Context()))
	})
}

// A leader ends a moment after it has run a tick, and another one begins at once, whose clock has yet to reach the tick, as
// when a new version is rolled out. No tick runs twice, and at most one in a row doesn't run.
func TestNoTickRunsTwiceWhenTheLeaderChanges(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		coll := mongotest.Database(t).Collection("jobs")
		r := runs{of: map[int64]int{}}
		electors := make([]*gocronlock.Elector, len(behind))
		for i, by := range behind {
			electors[i] = gocronlock.NewElector(locks(t, coll), "leader", apart)
			c := clock(by)
			defer start(t, everyTick(), r.job(c, 5*time.Millisecond), gocron.WithClock(c), gocron.WithDistributedElector(electors[i]))()
		}
		for n := range 100 {
			end := campaign(t, electors[n%len(electors)])
			time.Sleep(2 * period)
			for before := r.count(); r.count() == before; {
				time.Sleep(time.Millisecond)
			}
			time.Sleep(time.Duration(n) * 10 * time.Millisecond)
			end()
		}
		r.gaps(t, 1)
	})
}

// Run returns what can't pass, and the Elector says no.
func TestElectorReturnsTheServersRefusal(t *testing.T) {
	t.Parallel()
	mongotest.Virtual(t, func(t *testing.T) {
		l := locks(t, mongotest.Database(t).Collection("jobs"))
		must(t, l.Close(t.Context()))
		e := gocronlock.NewElector(l, "leader", apart)
		if err := e.Run(t.Context()); !errors.Is(err, doclock.ErrClosed) {
			t.Errorf("Run returned %v", err)
		}
		if err := e.IsLeader(t.Context()); !errors.Is(err, doclock.ErrNotAcquired) {
			t.Errorf("IsLeader returned %v", err)
		}
	})
}
