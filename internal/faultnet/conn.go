package faultnet

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

var errBroken = errors.New("faultnet: connection broken on purpose")

// conn is one connection. The driver writes a message in one call, and reads
// the reply before it writes the next message.
type conn struct {
	net.Conn
	net *Net

	mu       sync.Mutex
	deadline time.Time
	fault    *Fault       // of the last written message
	reply    bytes.Buffer // the rest of a reply that this package has read or changed
	once     sync.Once
	closed   chan struct{}
}

// Write handles every message to the server.
func (c *conn) Write(message []byte) (int, error) {
	if d := c.net.latency(); d > 0 {
		time.Sleep(d)
	}
	name, body := command(message)
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
		close(f.fired)
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
		_, err := readMessage(c.Conn)
		close(f.fired)
		f.finish(err)
		return c.breakOff()
	case DelayReply:
		message, err := readMessage(c.Conn)
		close(f.fired)
		f.finish(err)
		if err == nil {
			err = c.await(f.let)
		}
		c.reply.Write(message)
		return err
	case Rewrite:
		message, err := readMessage(c.Conn)
		if err == nil {
			_, body := command(message)
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

// answer puts the rewritten document into the buffer of the reply. Request and
// reply differ in their header only by the positions of their ids.
func (c *conn) answer(f *Fault, message []byte, body bson.Raw) {
	doc, err := bson.Marshal(f.rewrite(body))
	if err != nil {
		panic("faultnet: a rewrite that is not a document: " + err.Error())
	}
	header := bytes.Clone(message[:16])
	if f.kind == Refuse {
		copy(header[8:12], message[4:8])
	}
	binary.LittleEndian.PutUint32(header, uint32(16+4+1+len(doc)))
	c.reply.Write(header)
	c.reply.Write([]byte{0, 0, 0, 0, 0})
	c.reply.Write(doc)
}

// later sends the message by its own connection when the fault is let go.
func (c *conn) later(f *Fault, message []byte) {
	address := c.RemoteAddr()
	go func() {
		<-f.let
		f.finish(func() error {
			fresh, err := net.DialTimeout(address.Network(), address.String(), 5*time.Second)
			if err != nil {
				return err
			}
			defer fresh.Close()
			if _, err := fresh.Write(message); err != nil {
				return err
			}
			_, err = readMessage(fresh)
			return err
		}())
	}()
}

// abrupt makes the end of the connection a reset, not an orderly one.
func (c *conn) abrupt() error {
	tcp, ok := c.Conn.(*net.TCPConn)
	if !ok {
		return nil
	}
	return tcp.SetLinger(0)
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

func readMessage(r io.Reader) ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return nil, err
	}
	message := make([]byte, binary.LittleEndian.Uint32(size[:]))
	copy(message, size[:])
	_, err := io.ReadFull(r, message[4:])
	return message, err
}

// command reads the body of an OP_MSG: a header of 16 bytes, 4 of flags, then
// sections. The section of kind 0 is the command.
func command(message []byte) (string, bson.Raw) {
	const opMsg = 2013
	if len(message) < 26 || binary.LittleEndian.Uint32(message[12:]) != opMsg || message[20] != 0 {
		return "", nil
	}
	body := bson.Raw(message[21:])
	size := binary.LittleEndian.Uint32(body)
	if int(size) > len(body) {
		return "", nil
	}
	body = body[:size]
	first, err := body.IndexErr(0)
	if err != nil {
		return "", nil
	}
	return first.Key(), body
}
