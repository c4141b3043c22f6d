package doclock

import (
	"sync"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// mostCommands is how many renewals are under way at a time. It is more than
// one for the sake of those that don't wait for a document which somebody
// keeps back from all writes.
const mostCommands = 4

// renewals keeps leases alive: all that are kept of one Locker, from one
// goroutine, which is there while there are any, and a few more while commands
// are under way.
//
// A lease is due when a third of its TTL has passed. Those that will be soon
// are taken along, so that commands are few and full.
type renewals struct {
	engine *engine.Engine
	wake   chan struct{} // tells the loop to look now

	mu      sync.Mutex // taken before a lease's
	running bool       // the loop is
	kept    map[*Lease]keeping
	next    time.Duration // when the loop looks again, on the monotonic clock
	pending [][]*Lease    // not sent yet, one command each
	workers int           // those that send them
}

// keeping is what the renewals know of a lease.
type keeping struct {
	keepers int
	taken   bool          // it is pending, or its command is under way
	alone   bool          // a batch failed to renew it, and might fail for it
	after   time.Duration // not before, on the monotonic clock
}

// rest is how long a lease needn't be renewed.
func (l *Lease) rest(now engine.Reading) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valid.left(now) - l.valid.ttl*2/3
}

// soon is how much earlier than due a lease is taken along: a third of the
// time between two renewals. The loop looks as often, for the wall clock's
// sake, to which no timer listens.
func (l *Lease) soon() time.Duration { return l.engine.Lease(l.grant.Tag) / 9 }

// pause is the time between two tries.
func (l *Lease) pause() time.Duration { return l.engine.Lease(l.grant.Tag) / 20 }

// keep adds a keeper.
func (r *renewals) keep(l *Lease) {
	now := r.engine.Clocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[*Lease]keeping{}
	}
	k := r.kept[l]
	k.keepers++
	r.kept[l] = k
	switch {
	case !r.running:
		r.running = true
		go r.run()
	case k.keepers == 1:
		r.lookBy(now.Mono + l.rest(now))
	}
}

// dismiss takes a keeper away.
func (r *renewals) dismiss(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	k := r.kept[l]
	k.keepers--
	if k.keepers > 0 {
		r.kept[l] = k
		return
	}
	delete(r.kept, l)
	if len(r.kept) == 0 {
		r.kept = nil // a map never shrinks
		r.lookBy(0)
	}
}

// lookBy wakes the loop if it would sleep for longer than until then.
func (r *renewals) lookBy(then time.Duration) {
	if then >= r.next {
		return
	}
	r.next = then
	select {
	case r.wake <- struct{}{}:
	default:
	}
}

// run is the loop. It ends with the last keeper.
func (r *renewals) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		sleep, any := r.look()
		if !any {
			return
		}
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-r.wake:
		}
	}
}

// look has what is due renewed, and returns when to look again.
func (r *renewals) look() (sleep time.Duration, any bool) {
	now := r.engine.Clocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.kept) == 0 {
		r.running = false
		return 0, false
	}
	var due dueLeases
	sleep = time.Hour
	for l, k := range r.kept {
		sleep = min(sleep, l.soon())
		if k.taken || l.over.Err() != nil {
			continue
		}
		rest, pause := l.rest(now), k.after-now.Mono
		if pause <= 0 && rest <= l.soon() {
			due.add(l, k.alone, rest)
		} else {
			sleep = min(sleep, max(rest, pause))
		}
	}
	if due.soonest > 0 {
		sleep = min(sleep, due.soonest) // and they will fill a command then
	} else {
		r.take(due.commands())
	}
	r.next = now.Mono + sleep
	return sleep, true
}

// take has commands sent.
func (r *renewals) take(commands [][]*Lease) {
	for _, leases := range commands {
		for _, l := range leases {
			k := r.kept[l]
			k.taken = true
			r.kept[l] = k
		}
	}
	r.pending = append(r.pending, commands...)
	for n := len(r.pending); n > 0 && r.workers < mostCommands; n-- {
		r.workers++
		go r.work()
	}
}

// work sends what is pending.
func (r *renewals) work() {
	for {
		leases, any := r.fetch()
		if !any {
			return
		}
		alone := renew(r.engine, leases)
		r.putBack(leases, alone)
	}
}

func (r *renewals) fetch() (leases []*Lease, any bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.pending) == 0 {
		r.pending = nil
		r.workers--
		return nil, false
	}
	for _, l := range r.pending[0] {
		if _, kept := r.kept[l]; kept {
			leases = append(leases, l)
		}
	}
	r.pending = r.pending[1:]
	return leases, true
}

// putBack lets leases rest until they are due again, or for a pause if they
// were not renewed.
func (r *renewals) putBack(leases []*Lease, alone bool) {
	now := r.engine.Clocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range leases {
		k, kept := r.kept[l]
		if !kept {
			continue
		}
		k.taken = false
		if rest := l.rest(now); rest > 0 {
			k.alone, k.after = false, 0
			r.lookBy(now.Mono + rest)
		} else {
			k.alone, k.after = k.alone || alone, now.Mono+l.pause()
			r.lookBy(k.after)
		}
		r.kept[l] = k
	}
}
