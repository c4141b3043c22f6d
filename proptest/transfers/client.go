package transfers

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/child"
	"github.com/doclock/doclock/relations"
)

const (
	childName  = "transfers"
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
func Main() { child.Main(childName, clients) }

// clients move money until the input ends. They print what they have done:
//
//	done <client> <accounts>
//	finished <number of other clients' transfers since the last such line>
//	gave-up <client> <why>
//	commands <number since the last such line>
func clients(ctx context.Context, args []string) error {
	var finished atomic.Int64
	client, commands, err := child.Connect(args[0])
	if err != nil {
		return err
	}
	coll := client.Database(args[1]).Collection(args[2])
	locks, err := multilock.New(coll, relations.Exclusive(), doclock.TTL(ttl), doclock.ClockTolerance(tolerance))
	if err != nil {
		return err
	}
	b := &bank{accounts: coll, locks: locks, careless: args[3] == "careless", finished: func() { finished.Add(1) }}
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
