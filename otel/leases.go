package otel

import (
	"container/list"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

const (
	// leasesKept is how many leases are remembered. A lease takes some 300 bytes,
	// and 4 KB with all its notes.
	leasesKept = 16384

	notesKept = 8 // of one lease
	noteBytes = 256
)

// leases remembers of each lease what its end doesn't tell: the trace that it
// belongs to, and its failures. An end makes its lease forgotten. If ends are
// missing, because events were dropped, the oldest leases are forgotten once there
// are too many. The hold span of a forgotten lease has the right times and no
// failures, and is a child of the span that ended the lease.
type leases struct {
	mu   sync.Mutex
	byID map[uuid.UUID][]*list.Element // several holders can share an entry, and so an ID
	all  *list.List                    // of *lease, the oldest first
}

type lease struct {
	id     uuid.UUID
	began  time.Time
	parent trace.SpanContext
	notes  []note
	failed int // renewals
}

// note is something that happened to a lease.
type note struct {
	at        time.Time
	kind      doclock.EventKind
	errorType string
	message   string
}

func newLeases() *leases { return &leases{byID: map[uuid.UUID][]*list.Element{}, all: list.New()} }

// began remembers a lease.
func (l *leases) began(e doclock.Event, parent trace.SpanContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all.Len() == leasesKept {
		l.forget(l.all.Front())
	}
	added := l.all.PushBack(&lease{id: e.LeaseID, began: e.Time, parent: parent})
	l.byID[e.LeaseID] = append(l.byID[e.LeaseID], added)
}

// note adds a failure to a lease, and to all that share its entry. The first few
// are kept, and the renewals that failed are counted.
func (l *leases) note(e doclock.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, element := range l.byID[e.LeaseID] {
		lease := element.Value.(*lease)
		if e.Kind == doclock.EventRenewalFailed {
			lease.failed++
		}
		if len(lease.notes) < notesKept {
			lease.notes = append(lease.notes, note{e.Time, e.Kind, errorType(e.Err), message(e.Err)})
		}
	}
}

// ended forgets a lease and returns it, or the zero lease if it is not known. Of
// those that share an ID it is the one that began when the event says.
func (l *leases) ended(e doclock.Event) lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	began := e.Time.Add(-e.Held)
	var found *list.Element
	for _, element := range l.byID[e.LeaseID] {
		if found == nil || distance(element, began) < distance(found, began) {
			found = element
		}
	}
	if found == nil {
		return lease{}
	}
	l.forget(found)
	return *found.Value.(*lease)
}

func distance(element *list.Element, t time.Time) time.Duration {
	return element.Value.(*lease).began.Sub(t).Abs()
}

func (l *leases) forget(element *list.Element) {
	id := l.all.Remove(element).(*lease).id
	rest := l.byID[id]
	if len(rest) == 1 {
		delete(l.byID, id)
		return
	}
	for i := range rest {
		if rest[i] == element {
			l.byID[id] = append(rest[:i], rest[i+1:]...)
			return
		}
	}
}

// message is an error's text, cut to its bytes.
func message(err error) string {
	if err == nil {
		return ""
	}
	return cut(err.Error(), noteBytes)
}
