package cases

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/doclock/doclock/bench/servers"
	"github.com/doclock/doclock/bench/subjects"
	"github.com/doclock/doclock/internal/child"
)

// errand is the task of a further process, which is the benchmark itself.
type errand struct {
	Subject string
	Key     string
	Workers int // of a claimant; 0 is one that waits for a lock
	Window  time.Duration
	TTL     time.Duration
	Servers servers.Servers
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
		if e.Workers > 0 {
			return claimAll(ctx, e, s)
		}
		return waitOnRequest(ctx, e, s)
	})
}

// ready says that the child is ready, and waits until its parent lets it go on. A child ends when its parent closes its
// input, or dies.
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

// runHandoff measures the time from the moment when one process begins to release, to the moment when a waiter in
// another process has the lock. The lock was held, and waited for, for 50 to 150 ms before.
func runHandoff(ctx context.Context, r *Run, all []*subjects.Subject) error {
	waiters := map[string]*child.Process{}
	for _, s := range all {
		if err := s.Make(ctx, r.key(s)); err != nil {
			return err
		}
		waiter, err := child.Start(ctx, childName, errand{Subject: s.Name, Key: r.key(s), TTL: r.now.ttl, Servers: r.Servers}, nil)
		if err != nil {
			return err
		}
		defer func() {
			waiter.Kill()
			_ = waiter.End()
		}()
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
