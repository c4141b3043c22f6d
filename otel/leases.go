package otel

import (
	"cmp"
	"container/list"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/trace"
)

const (
	leasesKept = 16384 // a lease takes some 300 bytes, and 4 KB with all its notes
	notesKept  = 8     // of one lease
	noteBytes  = 256
)

// leases remembers of each lease what its end doesn't tell: the trace that it
// belongs to, and its failures. An end makes its lease forgotten. If ends are
// missing, because events were dropped, the oldest leases are forgotten once there
// are too many: see the package's comment.
type leases struct {
	mu   sync.Mutex
	byID map[entry][]*list.Element // several holders can share one
	all  *list.List                // of *lease, the oldest first
}

// entry names an entry: those of a batch have one ID.
type entry struct {
	id       uuid.UUID
	document string
}

func entryOf(e doclock.Event) entry {
	return entry{e.LeaseID, string([]byte{byte(e.DocumentID.Type)}) + string(e.DocumentID.Value)}
}

type lease struct {
	of     entry
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

func newLeases() *leases { return &leases{byID: map[entry][]*list.Element{}, all: list.New()} }

// began remembers a lease.
func (l *leases) began(e doclock.Event, parent trace.SpanContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.all.Len() == leasesKept {
		l.forget(l.all.Front())
	}
	added := l.all.PushBack(&lease{of: entryOf(e), began: e.Time, parent: parent})
	l.byID[entryOf(e)] = append(l.byID[entryOf(e)], added)
}

// note adds a failure to a lease, and to all that share its entry. The first few
// are kept, and the renewals that failed are counted.
func (l *leases) note(e doclock.Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, element := range l.byID[entryOf(e)] {
		lease := element.Value.(*lease)
		if e.Kind == doclock.EventRenewalFailed {
			lease.failed++
		}
		if len(lease.notes) < notesKept {
			lease.notes = append(lease.notes, note{e.Time, e.Kind, errorType(e.Err), cut(fmt.Sprint(e.Err), noteBytes)})
		}
	}
}

// ended forgets a lease and returns it, or the zero lease if it is not known. Of
// those that share an ID it is the one that began when the event says.
func (l *leases) ended(e doclock.Event) lease {
	l.mu.Lock()
	defer l.mu.Unlock()
	sharing := l.byID[entryOf(e)]
	if len(sharing) == 0 {
		return lease{}
	}
	distance := func(of *list.Element) time.Duration { return of.Value.(*lease).began.Sub(e.Time.Add(-e.Held)).Abs() }
	found := slices.MinFunc(sharing, func(a, b *list.Element) int { return cmp.Compare(distance(a), distance(b)) })
	l.forget(found)
	return *found.Value.(*lease)
}

func (l *leases) forget(element *list.Element) {
	of := l.all.Remove(element).(*lease).of
	l.byID[of] = slices.DeleteFunc(l.byID[of], func(e *list.Element) bool { return e == element })
	if len(l.byID[of]) == 0 {
		delete(l.byID, of)
	}
}
