package transfers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	childVar   = "DOCLOCK_TRANSFERS_CLIENTS"
	perProcess = 4
	accounts   = 10
	fewest     = 2 // accounts of one transfer
	most       = 5
	ttl        = time.Second
	tolerance  = 200 * time.Millisecond
	longest    = 20 * time.Second // of one transfer, stops and dead holders included
)

// Main turns the process into clients if it was started as such, and then does
// not return. Tests that call [Run] call it first.
func Main() {
	args := os.Getenv(childVar)
	if args == "" {
		return
	}
	if err := clients(strings.Fields(args)); err != nil {
		fmt.Println("error", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// clients move money until the input ends. They print what they have done:
//
//	done <client> <accounts>
//	finished <number of other clients' transfers since the last such line>
//	gave-up <client> <why>
//	commands <number since the last such line>
func clients(args []string) error {
	var commands, finished atomic.Int64
	client, err := mongo.Connect(options.Client().ApplyURI(args[0]).SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) {
			if e.DatabaseName != "admin" {
				commands.Add(1)
			}
		},
	}))
	if err != nil {
		return err
	}
	coll := client.Database(args[1]).Collection(args[2])
	locks, err := multilock.New(coll, relations.Exclusive(), doclock.TTL(ttl), doclock.ClockTolerance(tolerance))
	if err != nil {
		return err
	}
	b := &bank{accounts: coll, locks: locks, careless: args[3] == "careless", finished: func() { finished.Add(1) }}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		stop()
	}()
	var mu sync.Mutex // of the output
	out := bufio.NewWriter(os.Stdout)
	var all sync.WaitGroup
	for number := range perProcess {
		all.Go(func() {
			for ctx.Err() == nil {
				t := newTransfer(rand.Perm(accounts)[:fewest+rand.N(most-fewest+1)], 1+rand.N(5))
				bounded, end := context.WithTimeout(context.Background(), longest)
				err := b.carryOut(bounded, t)
				why := word(bounded, err)
				end()
				mu.Lock()
				if err == nil {
					fmt.Fprintf(out, "done %d %d\n", number, len(t.Moves))
				} else {
					fmt.Fprintf(out, "gave-up %d %s: %v\n", number, why, err)
				}
				fmt.Fprintf(out, "commands %d\nfinished %d\n", commands.Swap(0), finished.Swap(0))
				_ = out.Flush()
				mu.Unlock()
			}
		})
	}
	all.Wait()
	closing, end := context.WithTimeout(context.Background(), longest)
	defer end()
	return locks.Close(closing)
}

// word is the kind of a transfer's error. One command's deadline may pass while
// the process is stopped; only the end of ctx shows a transfer that waits for ever.
func word(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return "stuck"
	case errors.Is(err, doclock.ErrLost):
		return "lost"
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		return "unknown"
	default:
		return "other"
	}
}
