package hammer

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/google/uuid"
)

// audit compares what the observer of a team's lockers was told with what the team's
// clients were told:
//
//   - a client got a lease: it was granted once, and has ended once;
//   - a client was told that a lease is lost: its end is a loss;
//   - a client was told of an outcome that is unknown: so was the observer;
//   - the observer was told of no other lease.
type audit struct {
	mu      sync.Mutex
	events  map[uuid.UUID]*counts
	clients map[uuid.UUID]*counts
	dropped int
}

// counts are of one lease.
type counts struct{ granted, ended, lost, unknown int }

func newAudit() *audit {
	return &audit{events: map[uuid.UUID]*counts{}, clients: map[uuid.UUID]*counts{}}
}

func of(all map[uuid.UUID]*counts, id uuid.UUID) *counts {
	if all[id] == nil {
		all[id] = &counts{}
	}
	return all[id]
}

// hear is the lockers' observer.
func (a *audit) hear(_ context.Context, e doclock.Event) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.dropped += e.Dropped
	switch e.Kind {
	case doclock.EventGranted:
		of(a.events, e.LeaseID).granted++
	case doclock.EventLost:
		of(a.events, e.LeaseID).lost++
		of(a.events, e.LeaseID).ended++
	case doclock.EventReleased, doclock.EventHandedOver, doclock.EventDetached:
		of(a.events, e.LeaseID).ended++
	case doclock.EventOutcomeUnknown:
		of(a.events, e.LeaseID).unknown++
	}
}

// told records what a client was told by a call that had a lease, or got one.
func (a *audit) told(lease *doclock.Lease, got bool, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	c := of(a.clients, lease.ID())
	switch {
	case got:
		c.granted++
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		c.unknown++
	case errors.Is(err, doclock.ErrLost):
		c.lost++
	}
}

// check waits until each lease has its end: one that was left alone has it when its
// time is up. It returns the first difference that remains.
func (a *audit) check() error {
	var err error
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		if err = a.difference(); err == nil {
			return nil
		}
	}
	return err
}

func (a *audit) difference() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.dropped > 0 { // what is missing is not known
		return nil
	}
	for id, c := range a.clients {
		e := of(a.events, id)
		if e.granted != c.granted || e.ended != c.granted || c.lost > 0 && e.lost == 0 || c.unknown > e.unknown {
			return fmt.Errorf("of lease %v the clients were told %+v, and the observer %+v", id, *c, *e)
		}
	}
	for id, e := range a.events {
		if a.clients[id] == nil {
			return fmt.Errorf("of lease %v no client was told, and the observer %+v", id, *e)
		}
	}
	return nil
}
