package leaders

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/child"
	"github.com/doclock/doclock/writelock"
)

const (
	childName = "leaders"
	ttl       = time.Second
	tolerance = 200 * time.Millisecond
)

// Main turns the process into a candidate if it was started as one, and then does
// not return. Tests that call [Run] call it first.
func Main() { child.Main(childName, candidate) }

// candidate campaigns until the input ends. While it leads it prints
//
//	valid <fencing token> <time>
func candidate(ctx context.Context, args []string) error {
	client, _, err := child.Connect(args[0])
	if err != nil {
		return err
	}
	locks, err := writelock.New(client.Database(args[1]).Collection("names"), doclock.Upsert(), doclock.TTL(ttl), doclock.ClockTolerance(tolerance))
	if err != nil {
		return err
	}
	_ = locks.Lead(ctx, doclock.ID("leader"), func(ctx context.Context, lease *doclock.Lease) error {
		for ctx.Err() == nil {
			at := time.Now().UnixNano()
			if lease.Err() == nil { // so it was valid at that time
				fmt.Println("valid", lease.Fence(), at)
			}
			time.Sleep(5 * time.Millisecond)
		}
		return nil
	})
	return nil
}
