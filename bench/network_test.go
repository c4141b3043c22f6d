package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// Each message arrives one round trip after it was written, whole and in its
// order, also if the next one is written in the meantime.
func TestDelayedMessagesDontWaitForEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const roundTrip, apart, n = 5 * time.Millisecond, 100 * time.Microsecond, 200
		client, server := net.Pipe()
		slow := newDelayed(client, roundTrip)
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
			if got, want := time.Since(began), roundTrip+time.Duration(i)*apart; got != want {
				t.Fatalf("message %d arrived after %v instead of %v", i, got, want)
			}
		}
		if err := slow.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Answers aren't delayed: the request was.
func TestDelayedAnswersArriveAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		slow := newDelayed(client, time.Second)
		defer slow.Close()
		began := time.Now()
		go server.Write([]byte("answer"))
		if _, err := io.ReadFull(slow, make([]byte, 6)); err != nil || time.Since(began) != 0 {
			t.Errorf("after %v: %v", time.Since(began), err)
		}
	})
}

// A deadline ends a read, and not a message on its way.
func TestDelayedDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		slow := newDelayed(client, time.Second)
		defer slow.Close()
		if err := slow.SetDeadline(time.Now().Add(time.Millisecond)); err != nil {
			t.Fatal(err)
		}
		if _, err := slow.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
		var late net.Error
		if _, err := slow.Read(make([]byte, 1)); !errors.As(err, &late) || !late.Timeout() {
			t.Errorf("the read ended with %v", err)
		}
		if _, err := io.ReadFull(server, make([]byte, 7)); err != nil {
			t.Error(err)
		}
	})
}

// A connection whose messages can't be passed on is closed, so that a reader
// doesn't wait for ever. A closed one takes no more messages.
func TestDelayedBrokenConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, server := net.Pipe()
		slow := newDelayed(client, time.Millisecond)
		if err := server.Close(); err != nil {
			t.Fatal(err)
		}
		if _, err := slow.Write([]byte("request")); err != nil {
			t.Fatal(err)
		}
		<-slow.closed
		if _, err := slow.Read(make([]byte, 1)); err == nil {
			t.Error("a read succeeded")
		}
		if _, err := slow.Write([]byte("request")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a write ended with %v", err)
		}
		if err := slow.Close(); err == nil {
			t.Error("it was closed twice")
		}
	})
}

func TestParseLatencies(t *testing.T) {
	got, err := parseLatencies("1ms, 500µs")
	if want := []time.Duration{time.Millisecond, 500 * time.Microsecond}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err := parseLatencies(""); err != nil || got != nil {
		t.Errorf("%v, %v", got, err)
	}
	for _, wrong := range []string{"1", "1ms,", "0s", "-1ms", "1ms,1ms"} {
		if _, err := parseLatencies(wrong); err == nil || !strings.Contains(err.Error(), "-latency") {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

func TestChoose(t *testing.T) {
	all := plan([]time.Duration{time.Millisecond, 5 * time.Millisecond})
	for patterns, want := range map[string]string{
		"pair":             "pair",
		"rmw,hot64-5ms":    "rmw hot64-5ms",
		"network,*-1ms":    "network pair-1ms rmw-1ms hot64-1ms handoff-1ms claim-1ms",
		"pair*,pair":       "pair pair-1ms pair-5ms",
		"hot4,claim-?ms":   "hot4 claim-1ms claim-5ms",
		"nothing":          "error",
		"pair,nothing-1ms": "error",
		"[":                "error",
	} {
		chosen, err := choose(all, patterns)
		var names []string
		for _, c := range chosen {
			names = append(names, c.name)
		}
		got := strings.Join(names, " ")
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %s instead of %s (%v)", patterns, got, want, err)
		}
	}
	if chosen, err := choose(all, ""); err != nil || len(chosen) != len(all) {
		t.Errorf("%d of %d cases without a choice: %v", len(chosen), len(all), err)
	}
	if len(plan(nil)) != len(cases) {
		t.Error("without latencies there are cases over a network")
	}
}
