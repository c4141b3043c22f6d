package faultnet

import (
	"bytes"
	"net"
	"sync"
	"time"
)

// late is a connection whose messages reach the server later. Each message has its
// own time, so that messages that follow each other don't wait for each other's
// latency, as those of a client that shares its connection. What the server answers
// arrives at once: a client can't distinguish that from half of the latency in each
// direction.
type late struct {
	net.Conn
	delay func() time.Duration

	mu     sync.Mutex
	queue  chan message // nil before the first delay: until then messages leave at once
	end    func() error
	closed chan struct{}
}

type message struct {
	text []byte
	due  time.Time
}

func newLate(conn net.Conn, delay func() time.Duration) *late {
	l := &late{Conn: conn, delay: delay, closed: make(chan struct{})}
	l.end = sync.OnceValue(func() error {
		close(l.closed)
		return conn.Close()
	})
	return l
}

// Write puts the message on its way.
func (l *late) Write(text []byte) (int, error) {
	const underWay = 1024 // messages, before the writer has to wait
	d := l.delay()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.queue == nil {
		if d == 0 {
			return l.Conn.Write(text)
		}
		l.queue = make(chan message, underWay)
		go l.carry(l.queue)
	}
	select {
	case <-l.closed:
		return 0, net.ErrClosed
	default:
	}
	select {
	case l.queue <- message{bytes.Clone(text), time.Now().Add(d)}:
		return len(text), nil
	case <-l.closed:
		return 0, net.ErrClosed
	}
}

// carry passes the messages on, in their order. One that can't be passed on ends
// the connection, as a reader then notices.
func (l *late) carry(queue <-chan message) {
	for {
		select {
		case m := <-queue:
			select {
			case <-time.After(time.Until(m.due)):
			case <-l.closed:
				return
			}
			if _, err := l.Conn.Write(m.text); err != nil {
				_ = l.end()
			}
		case <-l.closed:
			return
		}
	}
}

// Close drops what is still on its way.
func (l *late) Close() error { return l.end() }

// SetWriteDeadline has no effect: a deadline may be over when a message leaves.
func (l *late) SetWriteDeadline(time.Time) error { return nil }
