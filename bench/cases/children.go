package cases

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"sync"
	"time"

	"github.com/doclock/doclock/bench/servers"
	"github.com/doclock/doclock/bench/subjects"
	"github.com/doclock/doclock/internal/child"
	"golang.org/x/sync/errgroup"
)

// errand is the task of a further process, which is the benchmark itself.
type errand struct {
	Role    string // a key of roles
	Subject string
	Key     string
	Workers int           // of a claimant
	Window  time.Duration // of a claimant
	TTL     time.Duration
	Servers servers.Servers
}

// roles of a child. It ends when its parent closes its input, or dies.
var roles = map[string]func(ctx context.Context, e errand, s *subjects.Subject) error{
	"waiter":   waitOnRequest,
	"holder":   holdForEver,
	"claimant": claimAll,
}

// childName is the name under which the benchmark runs itself.
const childName = "bench"

// Child runs an errand if the process was started for one, and doesn't return then.
func Child() {
	child.Main(childName, func(ctx context.Context, e errand) error {
		s, err := subjects.Open(&e.Servers, e.Subject, e.TTL)
		if err != nil {
			return err
		}
		defer s.Close()
		return roles[e.Role](ctx, e, s)
	})
}

// ready says that the child is ready, and waits until its parent lets it go on.
func ready(ctx context.Context) error {
	fmt.Println("ready")
	return child.Await(ctx)
}

// waitOnRequest waits for the lock, prints the time of the grant, and releases
// the lock.
func waitOnRequest(ctx context.Context, e errand, s *subjects.Subject) error {
	for {
		if err := ready(ctx); err != nil {
			return nil // the parent has seen enough
		}
		unlock, err := s.Lock(ctx, e.Key)
		now := time.Now()
		if err != nil {
			return err
		}
		fmt.Println(now.UnixNano())
		if err := unlock(ctx); err != nil {
			return err
		}
	}
}

// holdForEver acquires the lock, and is killed.
func holdForEver(ctx context.Context, e errand, s *subjects.Subject) error {
	if _, err := s.Lock(ctx, e.Key); err != nil {
		return err
	}
	return ready(ctx)
}

// spawn starts a child for a subject, which then says "ready".
func (r *Run) spawn(ctx context.Context, role string, s *subjects.Subject, key string) (*child.Process, error) {
	return child.Start(ctx, childName, errand{Role: role, Subject: s.Name, Key: key, TTL: r.now.ttl, Servers: r.Servers}, nil)
}

// dismiss kills a child, as kill -9 does.
func dismiss(p *child.Process) {
	p.Kill()
	_ = p.End()
}

// runHandoff measures the time from the moment when one process begins to release, to the moment when a waiter in
// another process has the lock. The lock was held, and waited for, for 50 to 150 ms before.
func runHandoff(ctx context.Context, r *Run, all []*subjects.Subject) error {
	waiters := map[string]*child.Process{}
	for _, s := range all {
		if err := s.Make(ctx, r.key(s)); err != nil {
			return err
		}
		waiter, err := r.spawn(ctx, "waiter", s, r.key(s))
		if err != nil {
			return err
		}
		defer dismiss(waiter)
		waiters[s.Name] = waiter
	}
	return r.inTurn(0, pick(r, 10, 6), all, func(s *subjects.Subject, _ int) (round Round, err error) {
		for range pick(r, 10, 6) {
			took, err := passOn(ctx, s, r.key(s), waiters[s.Name])
			if err != nil {
				return round, err
			}
			round.Latencies, round.Took = append(round.Latencies, took), round.Took+took
		}
		return round, nil
	})
}

func passOn(ctx context.Context, s *subjects.Subject, key string, waiter *child.Process) (time.Duration, error) {
	if _, err := waiter.Hear(); err != nil { // it is ready, and has released the lock
		return 0, err
	}
	unlock, err := s.Lock(ctx, key)
	if err != nil {
		return 0, err
	}
	if err := waiter.Proceed(); err != nil {
		return 0, err
	}
	time.Sleep(50*time.Millisecond + rand.N(100*time.Millisecond))
	released := time.Now()
	if err := unlock(ctx); err != nil {
		return 0, err
	}
	line, err := waiter.Hear() // a time of the wall clock, which all processes share
	if err != nil {
		return 0, err
	}
	nanos, err := strconv.ParseInt(line, 10, 64)
	return time.Unix(0, nanos).Sub(released), err
}

// runTakeover kills the process that holds a lock, 100 ms after its grant, and measures how long a waiter has to go on
// waiting. All subjects wait at the same time.
func runTakeover(ctx context.Context, r *Run, all []*subjects.Subject) error {
	for n := range 6 {
		done := map[*subjects.Subject]Round{}
		var mu sync.Mutex
		var group errgroup.Group
		for _, s := range all {
			group.Go(func() error {
				before := s.Sent.Total()
				took, err := r.takeOver(ctx, s, fmt.Sprintf("%s %d", r.key(s), n))
				if err != nil {
					return fmt.Errorf("%s: %w", s.Name, err)
				}
				mu.Lock()
				defer mu.Unlock()
				done[s] = Round{Latencies: []time.Duration{took}, Took: took, Commands: s.Sent.Total() - before}
				return nil
			})
		}
		if err := errors.Join(group.Wait(), r.report(all, done)); err != nil {
			return err
		}
	}
	return nil
}

func (r *Run) takeOver(ctx context.Context, s *subjects.Subject, key string) (time.Duration, error) {
	if err := s.Make(ctx, key); err != nil {
		return 0, err
	}
	holder, err := r.spawn(ctx, "holder", s, key)
	if err != nil {
		return 0, err
	}
	if _, err := holder.Hear(); err != nil { // it has the lock
		return 0, errors.Join(err, holder.End())
	}
	killed := make(chan time.Time, 1)
	timer := time.AfterFunc(100*time.Millisecond, func() { killed <- time.Now(); dismiss(holder) })
	ctx, cancel := context.WithTimeout(ctx, 10*r.now.ttl)
	defer cancel()
	unlock, err := s.Lock(ctx, key)
	granted := time.Now()
	if timer.Stop() {
		dismiss(holder)
		return 0, errors.New("the lock was granted beside its holder")
	}
	if err != nil {
		return 0, err
	}
	return granted.Sub(<-killed), unlock(context.WithoutCancel(ctx))
}
