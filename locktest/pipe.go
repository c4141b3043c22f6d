package locktest

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/wire"
)

// pipe is a client's end of a connection in this process. The goroutine that writes a command executes it; only an answer
// that takes time has a goroutine of its own.
type pipe struct {
	server *Server
	conn   *conn

	mu          sync.Mutex
	request     []byte // one that is not complete
	replies     []byte // what the client has not read
	busy        bool   // an answer is to come
	broken      bool
	read, write time.Time     // deadlines
	changed     chan struct{} // closed when one of these changes, if somebody waits for it
}

// Read reads of the replies.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.until(&p.read, func() bool { return len(p.replies) > 0 }); err != nil {
		return 0, err
	}
	n := copy(b, p.replies)
	p.replies = p.replies[n:]
	return n, nil
}

// Write has the server execute the requests that are complete.
func (p *pipe) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for p.request = append(p.request, b...); ; {
		message, err := wire.Read(bytes.NewReader(p.request)) // a copy, for the driver uses b again
		switch {
		case p.broken:
			return 0, io.ErrClosedPipe
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return len(b), nil
		case err == nil:
			err = p.until(&p.write, func() bool { return !p.busy })
		}
		if err != nil {
			return 0, err
		}
		p.request = p.request[len(message):]
		p.busy = true
		p.mu.Unlock()
		reply, later := p.server.receive(p.conn, message)
		if later != nil {
			p.server.background(func() { p.answer(later()) })
		} else {
			p.answer(reply)
		}
		p.mu.Lock()
	}
}

// answer gives the client a reply. Without one the connection breaks.
func (p *pipe) answer(reply []byte) {
	if reply == nil {
		p.Close()
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.replies, p.busy = append(p.replies, reply...), false
	p.turn()
}

// until waits until something holds. It needs the mutex.
func (p *pipe) until(deadline *time.Time, holds func() bool) error {
	for {
		switch {
		case p.broken:
			return io.EOF
		case !deadline.IsZero() && !time.Now().Before(*deadline):
			return os.ErrDeadlineExceeded
		case holds():
			return nil
		}
		p.wait(*deadline)
	}
}

// wait waits for a change, or until the deadline. It needs the mutex, and returns with it.
func (p *pipe) wait(deadline time.Time) {
	if p.changed == nil {
		p.changed = make(chan struct{})
	}
	var over <-chan time.Time
	if !deadline.IsZero() {
		timer := time.NewTimer(time.Until(deadline))
		defer timer.Stop()
		over = timer.C
	}
	changed := p.changed
	p.mu.Unlock()
	defer p.mu.Lock()
	select {
	case <-changed:
	case <-over:
	}
}

// turn wakes those who wait. It needs the mutex.
func (p *pipe) turn() {
	if p.changed != nil {
		close(p.changed)
		p.changed = nil
	}
}

// breakOff breaks the connection. It needs the mutex.
func (p *pipe) breakOff() {
	p.broken, p.replies = true, nil
	p.turn()
}

// hangUp is the server's way to break the connection.
func (p *pipe) hangUp() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.breakOff()
	return nil
}

// Close is the client's way to break the connection. A request on its way arrives all the same.
func (p *pipe) Close() error {
	p.server.hangUp(p.conn)
	return nil
}

// SetDeadline ends reads and writes then. Zero is never.
func (p *pipe) SetDeadline(t time.Time) error {
	_ = p.SetReadDeadline(t)
	return p.SetWriteDeadline(t)
}

// SetReadDeadline ends reads then. Zero is never.
func (p *pipe) SetReadDeadline(t time.Time) error { return p.set(&p.read, t) }

// SetWriteDeadline ends writes then. Zero is never.
func (p *pipe) SetWriteDeadline(t time.Time) error { return p.set(&p.write, t) }

func (p *pipe) set(deadline *time.Time, t time.Time) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	*deadline = t
	p.turn()
	return nil
}

// LocalAddr is where the client is.
func (p *pipe) LocalAddr() net.Addr { return address("client") }

// RemoteAddr is the member that the connection leads to.
func (p *pipe) RemoteAddr() net.Addr { return address(p.conn.to.name) }

// address is an end of a connection in this process.
type address string

func (address) Network() string  { return "locktest" }
func (a address) String() string { return string(a) }
