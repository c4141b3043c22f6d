package machine

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/model"
	"github.com/google/uuid"
	"pgregory.net/rapid"
)

// told is what the observers of a run's clients were told of leases.
type told struct {
	mu     sync.Mutex
	leases map[uuid.UUID]events
}

// events are the numbers of those of one lease.
type events struct{ granted, lost, otherEnds int }

// hear is the observer.
func (o *told) hear(_ context.Context, e doclock.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	of := o.leases[e.LeaseID]
	switch e.Kind {
	case doclock.EventGranted:
		of.granted++
	case doclock.EventLost:
		of.lost++
	case doclock.EventReleased, doclock.EventHandedOver, doclock.EventDetached:
		of.otherEnds++
	default:
		return
	}
	if o.leases == nil {
		o.leases = map[uuid.UUID]events{}
	}
	o.leases[e.LeaseID] = of
}

// difference compares the events with the leases that clients got, all of which
// have ended.
func (o *told) difference(leases []*lease) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, l := range leases {
		want := events{granted: 1, otherEnds: 1}
		if l.over == model.Lost || l.released && l.verdict == model.Lost {
			want = events{granted: 1, lost: 1}
		}
		if got := o.leases[l.ID()]; got != want {
			return fmt.Errorf("of holder %d the observer was told %+v, and should be %+v", l.known.ID, got, want)
		}
	}
	if len(o.leases) != len(leases) {
		return fmt.Errorf("the observer was told of %d leases, and there were %d", len(o.leases), len(leases))
	}
	return nil
}

// events compares what the observers were told at the end of a run. The last events
// may be on their way.
func (m *apiMachine) events(t *rapid.T) {
	m.end()
	for _, l := range m.leases {
		l.look()
	}
	var err error
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
		if err = m.told.difference(m.leases); err == nil {
			m.count.Checked(APIEvents, len(m.leases))
			return
		}
	}
	t.Fatal(err)
}
