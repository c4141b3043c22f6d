package faultnet

import (
	"errors"
	"fmt"
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// Each message arrives after its delay, whole and in its order, also if the next one
// is written in the meantime. Answers arrive at once.
func TestDelayedMessagesDontWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const delay, apart, n = 5 * time.Millisecond, 100 * time.Microsecond, 200
		client, server := net.Pipe()
		slow := newLate(client, func() time.Duration { return delay })
		began := time.Now()
		go func() {
			text := make([]byte, 8)
			for i := range n {
				copy(text, fmt.Sprintf("%8d", i))
				if _, err := slow.Write(text); err != nil {
					t.Error(err)
				}
				clear(text) // the writer may use it again
				time.Sleep(apart)
			}
		}()
		text := make([]byte, 8)
		for i := range n {
			if _, err := io.ReadFull(server, text); err != nil {
				t.Fatal(err)
			}
			if want := fmt.Sprintf("%8d", i); string(text) != want {
				t.Fatalf("%q arrived instead of %q", text, want)
			}
			if got, want := time.Since(began), delay+time.Duration(i)*apart; got != want {
				t.Fatalf("message %d arrived after %v instead of %v", i, got, want)
			}
		}
		asked := time.Now()
		go server.Write([]byte("answer"))
		if _, err := io.ReadFull(slow, make([]byte, 6)); err != nil || time.Since(asked) != 0 {
			t.Errorf("an answer came after %v: %v", time.Since(asked), err)
		}
		if err := slow.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Messages that follow a delayed one keep their order when the delay ends. A deadline
// ends a read, and not a message on its way. A connection whose messages can't be
// passed on is closed, and takes no more.
func TestDelayEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		delay := time.Second
		slow := newLate(client, func() time.Duration { return delay })
		c := &conn{Conn: slow, net: New(), closed: make(chan struct{})}
		if err := c.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		for _, text := range []string{"first,", "second"} {
			if _, err := c.Write([]byte(text)); err != nil {
				t.Fatal(err)
			}
			delay = 0
		}
		var tooLate net.Error
		if _, err := c.Read(make([]byte, 1)); !errors.As(err, &tooLate) || !tooLate.Timeout() {
			t.Errorf("the read ended with %v", err)
		}
		text := make([]byte, 12)
		if _, err := io.ReadFull(server, text); err != nil || string(text) != "first,second" {
			t.Errorf("%q arrived: %v", text, err)
		}
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte("third")); err != nil {
			t.Fatal(err)
		}
		<-slow.closed
		if _, err := c.Write([]byte("fourth")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write ended with %v", err)
		}
	})
}
