package cases

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"time"

	"github.com/doclock/doclock/bench/servers"
	"github.com/doclock/doclock/bench/subjects"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"golang.org/x/sync/errgroup"
)

// claims are a claimant's answer.
type claims struct {
	All       []claim
	Beside    []claim // of others
	Commands  int64
	FoundNone int // how often a worker found none, although some were pending
	Failed    int
}

// claim is one document's claim. The times are of the wall clock, which all
// processes share, in nanoseconds.
type claim struct {
	Priority                  int
	Wished, Granted, Finished int64
	Order                     int64 // the fencing token, which is the server's clock; without one it is Granted
}

func (c *claims) add(more claims) {
	c.All = append(c.All, more.All...)
	c.Commands += more.Commands
	c.FoundNone += more.FoundNone
	c.Failed += more.Failed
}

// claimAll has workers claim and finish documents until none is pending, or the
// window ends.
func claimAll(ctx context.Context, e errand, s *subjects.Subject) error {
	if err := warmUp(ctx, s, e.Goroutines); err != nil {
		return err
	}
	client, err := e.Servers.Connect(&servers.Counter{}) // its commands are not the subject's
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	queue := client.Database(e.Servers.Database).Collection(s.Queue().Name())
	if _, err := subjects.Pending(ctx, queue); err != nil {
		return err
	}
	if err := ready(ctx); err != nil {
		return err
	}
	var mu sync.Mutex
	var all claims
	before, end := s.Sent.Total(), time.Now().Add(e.Window)
	group, working := errgroup.WithContext(ctx)
	for range e.Goroutines {
		group.Go(func() error {
			own, err := work(working, s, queue, end)
			mu.Lock()
			defer mu.Unlock()
			all.add(own)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	all.Commands = s.Sent.Total() - before
	return json.NewEncoder(os.Stdout).Encode(all)
}

// work is one worker. If it finds no free document, it looks again after a pause
// that doubles.
func work(ctx context.Context, s *subjects.Subject, queue *mongo.Collection, end time.Time) (own claims, err error) {
	const shortest, longest = 2 * time.Millisecond, 32 * time.Millisecond
	wished, pause := time.Now(), shortest
	for time.Now().Before(end) {
		c, err := s.Claim(ctx)
		granted := time.Now()
		if errors.Is(err, subjects.ErrNoneFree) {
			if more, err := subjects.Pending(ctx, queue); err != nil || !more {
				return own, err
			}
			own.FoundNone++
			time.Sleep(pause)
			pause = min(2*pause, longest)
			continue
		}
		if err == nil {
			err = c.Finish(ctx)
		}
		switch {
		case err == nil:
			finished := time.Now()
			own.All = append(own.All, claim{
				c.Priority, wished.UnixNano(), granted.UnixNano(), finished.UnixNano(), cmp.Or(c.Fence, granted.UnixNano()),
			})
			wished, pause = finished, shortest
		case s.Rival():
			own.Failed++
		default:
			return own, err
		}
	}
	return own, nil
}
