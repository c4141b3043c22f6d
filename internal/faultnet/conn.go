package faultnet

import (
	"bytes"
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/wire"
	"go.mongodb.org/mongo-driver/v2/bson"
)

var errBroken = errors.New("faultnet: connection broken on purpose")

// conn is one connection. The driver writes a message in one call, and reads
// the reply before it writes the next message.
type conn struct {
	net.Conn
	net              *Net
	network, address string // that it was dialled by

	mu       sync.Mutex
	deadline time.Time
	fault    *Fault       // of the last written message
	reply    bytes.Buffer // the rest of a reply that this package has read or changed
	once     sync.Once
	closed   chan struct{}
}

// Write handles every message to the server.
func (c *conn) Write(message []byte) (int, error) {
	name, body := wire.Message(message).Body()
	if c.net.blocks(name, message) {
		return len(message), nil
	}
	f := c.net.meets(name, body)
	if f == nil {
		return c.Conn.Write(message)
	}
	c.mu.Lock()
	c.fault = f
	c.mu.Unlock()
	switch f.kind {
	case LoseRequest:
		close(f.fired)
		f.finish(nil)
		return 0, c.breakOff()
	case Cut:
		_, err := c.Conn.Write(message[:len(message)/2])
		err = errors.Join(err, c.abrupt())
		close(f.fired)
		f.finish(err)
		return 0, c.breakOff()
	case Hold:
		c.later(f, bytes.Clone(message))
		close(f.fired)
		return 0, c.breakOff()
	case Repeat:
		c.later(f, bytes.Clone(message))
		return c.Conn.Write(message)
	case Stall:
		close(f.fired)
		f.finish(nil)
		return len(message), nil
	case Refuse:
		c.answer(f, message, nil)
		close(f.fired)
		f.finish(nil)
		return len(message), nil
	default: // the reply matters
		return c.Conn.Write(message)
	}
}

// Read handles every reply.
func (c *conn) Read(p []byte) (int, error) {
	c.mu.Lock()
	f := c.fault
	c.fault = nil
	c.mu.Unlock()
	if f != nil {
		if err := c.receive(f); err != nil {
			return 0, err
		}
	}
	if c.reply.Len() > 0 {
		return c.reply.Read(p)
	}
	return c.Conn.Read(p)
}

func (c *conn) receive(f *Fault) error {
	switch f.kind {
	case LoseReply:
		_, err := wire.Read(c.Conn)
		close(f.fired)
		f.finish(err)
		return c.breakOff()
	case Repeat: // the duplicate never overtakes the command itself
		message, err := wire.Read(c.Conn)
		close(f.fired)
		c.reply.Write(message)
		return err
	case DelayReply:
		message, err := wire.Read(c.Conn)
		close(f.fired)
		f.finish(err)
		if err == nil {
			err = c.await(f.let)
		}
		c.reply.Write(message)
		return err
	case Rewrite:
		message, err := wire.Read(c.Conn)
		if err == nil {
			_, body := message.Body()
			c.answer(f, message, body)
		}
		close(f.fired)
		f.finish(err)
		return err
	default:
		return nil
	}
}

// await waits as a read does: until its deadline, or the connection's end.
func (c *conn) await(let <-chan struct{}) error {
	c.mu.Lock()
	deadline := c.deadline
	c.mu.Unlock()
	var expired <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		expired = timer.C
	}
	select {
	case <-let:
		return nil
	case <-expired:
		return os.ErrDeadlineExceeded
	case <-c.closed:
		return errBroken
	}
}

// SetReadDeadline is called by a driver that gives up.
func (c *conn) SetReadDeadline(t time.Time) error {
	c.mu.Lock()
	c.deadline = t
	c.mu.Unlock()
	return c.Conn.SetReadDeadline(t)
}

// SetDeadline is both deadlines.
func (c *conn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// answer puts the rewritten document into the buffer of the reply: instead of a
// server's, or for a request that it never gets.
func (c *conn) answer(f *Fault, message wire.Message, body bson.Raw) {
	form := message.With
	if f.kind == Refuse {
		form = message.Reply
	}
	reply, err := form(f.rewrite(body))
	if err != nil {
		panic("faultnet: a rewrite that is not a document: " + err.Error())
	}
	c.reply.Write(reply)
}

// later sends the message by its own connection when the fault is let go.
func (c *conn) later(f *Fault, message []byte) {
	go func() {
		<-f.let
		f.finish(func() error {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			fresh, err := c.net.dial(ctx, c.network, c.address)
			if err != nil {
				return err
			}
			defer fresh.Close()
			if _, err := fresh.Write(message); err != nil {
				return err
			}
			_, err = wire.Read(fresh)
			return err
		}())
	}()
}

// abrupt makes the end of the connection a reset, not an orderly one.
func (c *conn) abrupt() error {
	under := c.Conn
	if l, delayed := under.(*late); delayed {
		under = l.Conn
	}
	if tcp, ok := under.(*net.TCPConn); ok {
		return tcp.SetLinger(0)
	}
	return nil
}

// reset leaves the closing to the client, which finds the connection broken.
func (c *conn) reset() {
	_ = c.abrupt()
	_ = c.Conn.Close()
}

func (c *conn) breakOff() error {
	_ = c.Close()
	return errBroken
}

// Close closes the connection.
func (c *conn) Close() error {
	c.once.Do(func() {
		close(c.closed)
		c.net.forget(c)
	})
	return c.Conn.Close()
}
