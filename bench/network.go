package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"time"
)

// network puts a latency between the clients and every server. It is the dialer
// of all clients: what a client writes reaches the server one round trip later,
// and what the server answers arrives at once. A client can't distinguish that
// from half of the latency in each direction.
//
// It is a dialer, and not a proxy before the servers, for two reasons. A driver
// finds the members of a replica set by itself, and would go round a proxy. And
// a proxy handles each message twice more: toxiproxy 2.12.0 with no latency
// added 0.045 ms to a round trip, a fifth of a command to redis, and used 0.03 ms
// of processor time, which the subjects with the most commands pay most. The
// case "network" shows the cost of this dialer. Linux's netem needs root and a
// kernel that has it.
type network struct {
	RoundTrip time.Duration
}

// parseLatencies reads the flag: round trips, separated by commas.
func parseLatencies(text string) (all []time.Duration, err error) {
	if text == "" {
		return nil, nil
	}
	for one := range strings.SplitSeq(text, ",") {
		d, err := time.ParseDuration(strings.TrimSpace(one))
		if err != nil {
			return nil, fmt.Errorf("-latency wants round trips such as 1ms,5ms: %w", err)
		}
		if d <= 0 {
			return nil, fmt.Errorf("-latency wants round trips above 0, and got %v", d)
		}
		if slices.Contains(all, d) {
			return nil, fmt.Errorf("-latency has %v twice", d)
		}
		all = append(all, d)
	}
	return all, nil
}

// DialContext implements options.ContextDialer. TCP opens a connection in one
// round trip.
func (n *network) DialContext(ctx context.Context, kind, address string) (net.Conn, error) {
	select {
	case <-time.After(n.RoundTrip):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, kind, address)
	if err != nil {
		return nil, err
	}
	return newDelayed(conn, n.RoundTrip), nil
}

// delayed is a connection whose writes leave later.
type delayed struct {
	net.Conn
	delay  time.Duration
	queue  chan message
	once   sync.Once
	closed chan struct{}
}

type message struct {
	text []byte
	due  time.Time
}

// underWay is the number of messages that a connection carries before it makes
// its writer wait.
const underWay = 1024

func newDelayed(conn net.Conn, delay time.Duration) *delayed {
	d := &delayed{Conn: conn, delay: delay, queue: make(chan message, underWay), closed: make(chan struct{})}
	go d.carry()
	return d
}

// carry passes the messages on. Each one has its own time, so that messages
// that follow each other don't wait for each other's latency. A message that
// can't be passed on ends the connection, as a reader then notices.
func (d *delayed) carry() {
	for {
		select {
		case m := <-d.queue:
			time.Sleep(time.Until(m.due))
			if _, err := d.Conn.Write(m.text); err != nil {
				_ = d.Close()
				return
			}
		case <-d.closed:
			return
		}
	}
}

// Write puts the message on its way.
func (d *delayed) Write(text []byte) (int, error) {
	select {
	case <-d.closed:
		return 0, net.ErrClosed
	default:
	}
	select {
	case d.queue <- message{bytes.Clone(text), time.Now().Add(d.delay)}:
		return len(text), nil
	case <-d.closed:
		return 0, net.ErrClosed
	}
}

// Close drops what is still on its way.
func (d *delayed) Close() error {
	err := errors.New("the connection was closed before")
	d.once.Do(func() {
		close(d.closed)
		err = d.Conn.Close()
	})
	return err
}

// SetDeadline is the deadline of reads alone: a write doesn't wait.
func (d *delayed) SetDeadline(t time.Time) error { return d.SetReadDeadline(t) }

// SetWriteDeadline has no effect: a deadline is over when a message leaves.
func (d *delayed) SetWriteDeadline(time.Time) error { return nil }
