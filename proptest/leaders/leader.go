package leaders

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	childVar  = "DOCLOCK_LEADERS_CANDIDATE"
	ttl       = time.Second
	tolerance = 200 * time.Millisecond
)

// Main turns the process into a candidate if it was started as one, and then does
// not return. Tests that call [Run] call it first.
func Main() {
	args := os.Getenv(childVar)
	if args == "" {
		return
	}
	if err := candidate(strings.Fields(args)); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// candidate campaigns until the input ends. While it leads it prints
//
//	valid <fencing token> <time>
func candidate(args []string) error {
	client, err := mongo.Connect(options.Client().ApplyURI(args[0]))
	if err != nil {
		return err
	}
	locks, err := writelock.New(client.Database(args[1]).Collection("names"), doclock.Upsert(), doclock.TTL(ttl), doclock.ClockTolerance(tolerance))
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
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
