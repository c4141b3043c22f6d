package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/spf13/cobra"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const checkLong = `check asks the server what it is, whether it can run doclock's commands, and how far the
clocks of its routers or members differ. It writes nothing.

The difference must be smaller than the lockers' ClockTolerance, 500 ms by default. The
exit code is 1 if the server is not supported, or the difference isn't.`

const checkExample = `  doclock check
  doclock check -c shop.orders --json`

func newCheck(c *cli) *cobra.Command {
	return &cobra.Command{
		Use: "check [flags]", Short: "Check the server: kind, version, clocks",
		Long: checkLong, Example: checkExample, Args: cobra.NoArgs, ValidArgsFunction: cobra.NoFileCompletions,
		RunE: action(func(ctx context.Context, _ []string) error { return c.check(ctx) }),
	}
}

func (c *cli) check(ctx context.Context) error {
	return c.onServer(ctx, func(ctx context.Context, coll *mongo.Collection) error {
		info, err := doclock.CheckServer(ctx, coll)
		if err != nil && !errors.Is(err, doclock.ErrUnsupportedServer) {
			return err
		}
		if c.json {
			if printErr := c.printJSON(struct {
				Supported     bool    `json:"supported"`
				Kind          string  `json:"kind"`
				Version       string  `json:"version"`
				ClockSkewMs   float64 `json:"clockSkewMs"`
				NeedsShardKey bool    `json:"needsShardKey"`
				Transactions  bool    `json:"transactions"`
				LimitMs       float64 `json:"transactionLimitMs,omitempty"`
			}{err == nil, string(info.Kind), info.Version, inMs(info.ClockSkew), info.NeedsShardKey, info.Kind != doclock.Standalone, inMs(info.TransactionLimit)}); printErr != nil {
				return printErr
			}
		} else {
			c.checkText(info, err == nil)
		}
		if err == nil {
			err = clockTrouble(info)
		}
		return err
	})
}

// clockTrouble is the error if a tolerance of 500 ms is too small.
func clockTrouble(info doclock.ServerInfo) error {
	const remedy = "synchronise the clocks, or give the lockers a doclock.ClockTolerance that is greater"
	if info.ClockSkew >= engine.DefaultTolerance {
		return fmt.Errorf("the servers' clocks differ by %v; %s", info.ClockSkew.Round(time.Millisecond), remedy)
	}
	return nil
}

func inMs(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func (c *cli) checkText(info doclock.ServerInfo, supported bool) {
	verdict := "supported"
	if !supported {
		verdict = "not supported"
	}
	fmt.Fprintf(c.out, "server       %s, %s: %s\n", oneline.Text(info.Version), info.Kind, verdict)
	switch {
	case !supported: // it may not have been measured
	case info.Kind != doclock.Standalone:
		fmt.Fprintf(c.out, "clock skew   %v (must be less than the ClockTolerance, by default %v)\n", info.ClockSkew.Round(100*time.Microsecond), engine.DefaultTolerance)
	default:
		fmt.Fprintln(c.out, "clock skew   none: there is one clock")
	}
	switch {
	case info.Kind == doclock.Standalone:
		fmt.Fprintln(c.out, "transactions none: WithTransaction needs a replica set or a sharded cluster")
	case info.TransactionLimit > 0:
		fmt.Fprintf(c.out, "transactions open for %v at most, and up to half as long again: so long a dead client keeps others out\n", info.TransactionLimit)
	default:
		fmt.Fprintln(c.out, "transactions yes; the server doesn't say for how long one may be open")
	}
	if info.NeedsShardKey {
		fmt.Fprintln(c.out, "shard key    give --shard-key with its fields, and doclock.ShardKey to the lockers")
	}
}
