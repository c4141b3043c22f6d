package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// Somebody may keep documents back from all writes, and a renewal that waits for
// one of them must not keep others waiting. So a command that is out for long
// makes room for another, and those that have failed by themselves, which is
// what those are that nobody can renew, don't take all of the room.
const (
	mostPrompt = 4   // commands that are not out for long yet
	mostOut    = 100 // commands in all: each lease of a batch can be out by itself
	mostStuck  = 16  // commands for leases that could not be renewed even alone
)

// renewals keeps leases alive: all that are kept of one Locker, from one
// goroutine, which is there while there are any, and one for each command that
// is under way.
//
// A lease is due when a third of its TTL has passed. Those that will be soon
// are taken along, so that commands are few and full.
type renewals struct {
	engine *engine.Engine
	wake   chan struct{} // tells the loop to look now

	mu      sync.Mutex // taken before a lease's
	running bool       // the loop is
	kept    map[*Handle]keeping
	next    time.Duration // when the loop looks again, on the monotonic clock
	pending []renewal     // not sent yet, in the order of sending

	prompt, out, stuck int // commands that are under way, as the bounds count them
}

// keeping is what the renewals know of a lease.
type keeping struct {
	keepers int
	taken   bool          // it is pending, or its command is under way
	alone   bool          // a batch failed to renew it, and might fail for it
	stuck   bool          // so did a command of its own
	after   time.Duration // not before, on the monotonic clock
}

// rest is how long a lease needn't be renewed.
func (l *Handle) rest(now engine.Reading) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.valid.left(now) - l.valid.ttl*2/3
}

// soon is how much earlier than due a lease is taken along: a third of the
// time between two renewals. The loop looks as often, for the wall clock's
// sake, to which no timer listens.
func (l *Handle) soon() time.Duration { return l.engine.Lease(l.grant.Tag) / 9 }

// pause is the time between two tries.
func (l *Handle) pause() time.Duration { return l.engine.Lease(l.grant.Tag) / 20 }

// keep adds a keeper.
func (r *renewals) keep(l *Handle) {
	now := r.engine.Clocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[*Handle]keeping{}
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
func (r *renewals) dismiss(l *Handle) {
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
			due.add(l, k, rest)
		} else {
			sleep = min(sleep, max(rest, pause))
		}
	}
	if due.soonest > 0 {
		sleep = min(sleep, due.soonest) // and they will fill a command then
	} else {
		r.take(due.renewals(now.Mono))
	}
	r.next = now.Mono + sleep
	return sleep, true
}

// take has renewals sent.
func (r *renewals) take(all []renewal) {
	for _, c := range all {
		for _, l := range c.leases {
			k := r.kept[l]
			k.taken = true
			r.kept[l] = k
		}
	}
	r.pending = append(r.pending, all...)
	slices.SortStableFunc(r.pending, renewal.compare)
	r.send()
}

// send sends what is pending and may be under way.
func (r *renewals) send() {
	for len(r.pending) > 0 && r.prompt < mostPrompt && r.out < mostOut {
		c := r.pending[0]
		if c.stuck && r.stuck == mostStuck { // and so are all the others
			return
		}
		r.pending = r.pending[1:]
		r.count(c, 1)
		go r.carryOut(c)
	}
	if len(r.pending) == 0 {
		r.pending = nil
	}
}

func (r *renewals) count(c renewal, n int) {
	r.prompt += n
	r.out += n
	if c.stuck {
		r.stuck += n
	}
}

// carryOut sends one renewal.
func (r *renewals) carryOut(c renewal) {
	leases := r.stillKept(c.leases)
	slow := time.AfterFunc(c.long(), r.makeRoom)
	alone := renew(r.engine, leases)
	now := r.engine.Clocks()
	r.mu.Lock()
	defer r.mu.Unlock()
	if !slow.Stop() {
		r.prompt++ // which makeRoom has counted out
	}
	r.count(c, -1)
	r.putBack(leases, alone, now)
	r.send()
}

// makeRoom lets another renewal be sent beside one that is out for long.
func (r *renewals) makeRoom() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.prompt--
	r.send()
}

func (r *renewals) stillKept(all []*Handle) (leases []*Handle) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, l := range all {
		if _, kept := r.kept[l]; kept {
			leases = append(leases, l)
		}
	}
	return leases
}

// putBack lets leases rest until they are due again, or for a pause if they
// were not renewed.
func (r *renewals) putBack(leases []*Handle, alone bool, now engine.Reading) {
	for _, l := range leases {
		k, kept := r.kept[l]
		if !kept {
			continue
		}
		k.taken = false
		if rest := l.rest(now); rest > 0 {
			k.alone, k.stuck, k.after = false, false, 0
			r.lookBy(now.Mono + rest)
		} else {
			k.stuck = k.stuck || len(leases) == 1
			k.alone, k.after = k.alone || alone, now.Mono+l.pause()
			r.lookBy(k.after)
		}
		r.kept[l] = k
	}
}
