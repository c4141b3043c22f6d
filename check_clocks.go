package doclock

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"go.mongodb.org/mongo-driver/v2/mongo/readpref"
)

// A check reads the clocks so many times, with a pause before each next one.
const (
	clockReadings = 16
	clockPause    = 60 * time.Millisecond
)

// readClocks reads the servers' clocks: the driver chooses a server at random.
func (info *ServerInfo) readClocks(ctx context.Context, db *mongo.Database) error {
	begun := time.Now()
	here := func() engine.Reading {
		now := time.Now()
		return engine.Reading{Mono: now.Sub(begun), Wall: now.Round(0)}
	}
	servers := clocks{}
	for i := range clockReadings {
		if i > 0 {
			attempt.Sleep(ctx, clockPause) // if ctx ends, the next question has its error
		}
		sent := here()
		answer, err := askHello(ctx, db, options.RunCmd().SetReadPreference(readpref.Nearest()))
		if err != nil {
			return fmt.Errorf("doclock: read the servers' clocks: %w", err)
		}
		answered := here()
		if jump := servers.see(answer, sent, answered); jump.Abs() > info.ClockJump.Abs() {
			info.ClockJump = jump
		}
		info.ClockReadings++
		info.ClockWatched = answered.Mono
	}
	info.ClockSkew = servers.skew()
	return nil
}

// clocks are those of the servers.
type clocks map[string]*engine.Clockwatch

// see returns the jump that an answer proves.
func (c clocks) see(answer helloAnswer, sent, answered engine.Reading) time.Duration {
	server := answer.server()
	if c[server] == nil {
		c[server] = &engine.Clockwatch{}
	}
	return c[server].See(answer.LocalTime, sent, answered, engine.DefaultTolerance/4)
}

// skew is the greatest difference between two of them.
func (c clocks) skew() (most time.Duration) {
	for _, a := range c {
		for _, b := range c {
			most = max(most, a.Ahead()-b.Ahead())
		}
	}
	return most
}
