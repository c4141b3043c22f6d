package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// How long doclock waits for a server that doesn't answer.
const (
	patience        = 10 * time.Second // unless --timeout says otherwise
	shortestTimeout = 100 * time.Millisecond
)

// silenceError: the server doesn't answer any more.
type silenceError struct {
	timeout time.Duration
	err     error // what the work then returned
}

func (e *silenceError) Error() string {
	return fmt.Sprintf("the server has not answered for %v: %v", e.timeout, e.err)
}
func (e *silenceError) Unwrap() error { return e.err }

// onServer opens the collection and does the work with it, while the server
// answers.
func (c *cli) onServer(ctx context.Context, work func(context.Context, *mongo.Collection) error) error {
	coll, disconnect, err := c.connect()
	if err != nil {
		return err
	}
	defer disconnect()
	return c.answered(ctx, coll, work)
}

// answered does the work under a context that ends when the server answers
// nothing for --timeout. A command may take any time, as a list of a large
// collection does, and so may the reader of the output. So a ping asks, beside the
// work, whether the server is there.
func (c *cli) answered(ctx context.Context, coll *mongo.Collection, work func(context.Context, *mongo.Collection) error) error {
	ctx, cancel := context.WithCancel(ctx)
	asked := make(chan bool, 1)
	go func() {
		asked <- c.silence(ctx, coll.Database().Client())
		cancel()
	}()
	err := work(ctx, coll)
	cancel()
	if silent := <-asked; silent && err != nil {
		return &silenceError{c.timeout, err}
	}
	return err
}

// silence returns at the end of ctx, or if the server has not answered for
// --timeout, and reports whether that has happened. It asks twice: this process
// may have been stopped while it asked.
func (c *cli) silence(ctx context.Context, client *mongo.Client) bool {
	third := c.timeout / 3
	for asked := 0; asked < 2; {
		if asked == 0 && !passed(ctx, third) {
			return false
		}
		pinged, cancel := context.WithTimeout(ctx, third)
		err := client.Ping(pinged, nil)
		cancel()
		switch {
		case ctx.Err() != nil:
			return false
		case mongo.IsTimeout(err) && !unselected(err):
			asked++
		default: // an answer, or an error that the work meets by itself
			asked = 0
		}
	}
	return true
}

// unselected reports whether the driver found no server to send to. The type of its
// error is in the driver's x/, which may change. So its text tells.
func unselected(err error) bool {
	return err != nil && strings.Contains(err.Error(), "server selection error")
}

// passed waits, and reports whether the time has passed before the end of ctx.
func passed(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
