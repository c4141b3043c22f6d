package main

import (
	"context"
	"net"
	"sync/atomic"
)

// wire counts the bytes of a client's connections. They include a few of its
// heartbeats; medians leave them out.
type wire struct {
	dialer         net.Dialer
	sent, received atomic.Int64
}

// DialContext implements options.ContextDialer.
func (w *wire) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	conn, err := w.dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	return &countedConn{conn, w}, nil
}

type countedConn struct {
	net.Conn
	wire *wire
}

func (c *countedConn) Read(p []byte) (n int, err error) {
	n, err = c.Conn.Read(p)
	c.wire.received.Add(int64(n))
	return n, err
}

func (c *countedConn) Write(p []byte) (n int, err error) {
	n, err = c.Conn.Write(p)
	c.wire.sent.Add(int64(n))
	return n, err
}
