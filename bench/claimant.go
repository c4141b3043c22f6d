package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// claims are a claimant's answer.
type claims struct {
	All       []claim
	Commands  int64
	FoundNone int // how often a worker found none, although some were pending
	Failed    int
}

// claim is one document's claim. The times are of the wall clock, which all
// processes share, in nanoseconds.
type claim struct {
	Priority                  int
	Wished, Granted, Finished int64
}

// claimAll has workers claim and finish documents until none is pending, or the
// window ends.
func claimAll(ctx context.Context, e errand, s named, said *bufio.Scanner) error {
	if err := warmUp(ctx, s, e.Goroutines); err != nil {
		return err
	}
	client, err := e.Servers.connect(&counter{}) // its commands are not the subject's
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	queue := client.Database(e.Servers.Database).Collection(jobs)
	if _, err := anyPending(ctx, queue); err != nil {
		return err
	}
	fmt.Println("ready")
	if !said.Scan() {
		return said.Err()
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		group  sync.WaitGroup
		mu     sync.Mutex
		all    claims
		faults []error
	)
	before, end := s.sent().total(), time.Now().Add(e.Window)
	for range e.Goroutines {
		group.Go(func() {
			own, err := work(ctx, s, queue, end)
			mu.Lock()
			defer mu.Unlock()
			all.add(own)
			if err != nil && ctx.Err() == nil {
				faults = append(faults, err)
				cancel()
			}
		})
	}
	group.Wait()
	if err := errors.Join(faults...); err != nil {
		return err
	}
	all.Commands = s.sent().total() - before
	return json.NewEncoder(os.Stdout).Encode(all)
}

// work is one worker. If it finds no free document, it looks again after a pause
// that doubles.
func work(ctx context.Context, s named, queue *mongo.Collection, end time.Time) (own claims, err error) {
	const shortest, longest = 2 * time.Millisecond, 32 * time.Millisecond
	wished, pause := time.Now(), shortest
	for time.Now().Before(end) {
		c, err := s.subject.(claimer).claim(ctx)
		granted := time.Now()
		if errors.Is(err, errNoneFree) {
			if more, err := anyPending(ctx, queue); err != nil || !more {
				return own, err
			}
			own.FoundNone++
			time.Sleep(pause)
			pause = min(2*pause, longest)
			continue
		}
		if err == nil {
			err = c.finish(ctx)
		}
		switch {
		case err == nil:
			finished := time.Now()
			own.All = append(own.All, claim{c.Priority, wished.UnixNano(), granted.UnixNano(), finished.UnixNano()})
			wished, pause = finished, shortest
		case rival(s.name):
			own.Failed++
		default:
			return own, err
		}
	}
	return own, nil
}

func anyPending(ctx context.Context, queue *mongo.Collection) (bool, error) {
	err := queue.FindOne(ctx, pending).Err()
	if none(err) {
		return false, nil
	}
	return err == nil, err
}

func (c *claims) add(more claims) {
	c.All = append(c.All, more.All...)
	c.Commands += more.Commands
	c.FoundNone += more.FoundNone
	c.Failed += more.Failed
}
