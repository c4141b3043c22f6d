package multilock

import (
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/waitqueue"
)

// Bounds of what is passed over.
const (
	unfitFor  = time.Minute
	mostUnfit = 256 // by a claim, and remembered by a Locker
)

// unfit remembers for a minute the documents that can't take the lock, so that all claims
// of a Locker pass over them. It forgets none before: what it has no room for, each claim
// meets again.
type unfit struct {
	mu  sync.Mutex
	all []unfitOne // in the order in which they were refused
}

type unfitOne struct {
	tag, document string
	pin           engine.Pin
	until         time.Time
}

func (u *unfit) add(tag string, pin engine.Pin) {
	one := unfitOne{tag, waitqueue.Key(pin), pin, time.Now().Add(unfitFor)}
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget()
	known := slices.ContainsFunc(u.all, func(o unfitOne) bool { return o.tag == one.tag && o.document == one.document })
	if !known && len(u.all) < mostUnfit {
		u.all = append(u.all, one)
	}
}

// recall returns the documents that can't take a lock of this tag.
func (u *unfit) recall(tag string) (pins []engine.Pin) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.forget()
	for _, o := range u.all {
		if o.tag == tag {
			pins = append(pins, o.pin)
		}
	}
	return pins
}

func (u *unfit) forget() {
	now := time.Now()
	u.all = slices.DeleteFunc(u.all, func(o unfitOne) bool { return now.After(o.until) })
}
