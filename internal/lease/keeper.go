package lease

import (
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// Somebody may lock documents against all writes, and a renewal that waits for
// one of them must not delay others. So a command that is out for long makes
// room for another. Leases that can't be renewed even alone are stuck, and their
// renewals don't take all of the room.
const (
	mostPrompt = 4   // commands that are not out for long yet
	mostOut    = 100 // commands in all: each lease of a batch can be out by itself
	mostStuck  = 16  // commands for stuck leases
)

// keeper keeps all leases of one Locker alive that a KeepAlive asks for. It has
// one goroutine while there are any, and one for each command that is under way.
//
// A lease is due when a third of its TTL has passed. Leases that are due soon are
// renewed with it, so that commands are few and full.
type keeper struct {
	engine *engine.Engine
	wake   chan struct{} // makes the loop look now

	mu      sync.Mutex // taken before a lease's
	running bool       // the loop is
	kept    map[*Lease]keeping
	next    time.Duration // when the loop looks again, on the monotonic clock
	pending []renewal     // not sent yet, in the order of sending

	prompt, out, stuck int // commands that are under way, as the bounds count them
}

// keeping is what the keeper knows of a lease.
type keeping struct {
	wanted int           // KeepAlives that ask for it
	taken  bool          // it is pending, or its command is under way
	alone  bool          // a batch failed to renew it, and it may be the reason
	stuck  bool          // a command for it alone failed too
	after  time.Duration // not before, on the monotonic clock
}

// rest is how long a lease needn't be renewed.
func (l *Lease) rest(now engine.Reading) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.atLimit(now) {
		return l.validity.ttl
	}
	return l.validity.left(now) - l.validity.ttl*2/3
}

// soon is how much earlier than due a lease is renewed with others: a third of
// the time between two renewals. The loop looks as often, because no timer
// follows the wall clock.
func (l *Lease) soon() time.Duration { return l.grant.TTL / 9 }

// pause is the time between two tries.
func (l *Lease) pause() time.Duration { return l.grant.TTL / 20 }

// keep has a lease renewed until it is dismissed as often as it is kept.
func (k *keeper) keep(l *Lease) {
	now := k.engine.Clocks()
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.kept == nil {
		k.kept = map[*Lease]keeping{}
	}
	of := k.kept[l]
	of.wanted++
	k.kept[l] = of
	switch {
	case !k.running:
		k.running = true
		go k.run()
	case of.wanted == 1:
		k.wakeBy(now.Mono + l.rest(now))
	}
}

func (k *keeper) dismiss(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	of := k.kept[l]
	of.wanted--
	if of.wanted > 0 {
		k.kept[l] = of
		return
	}
	delete(k.kept, l)
	if len(k.kept) == 0 {
		k.kept = nil // a map never shrinks
		k.wakeBy(0)
	}
}

// wakeBy wakes the loop if it would sleep for longer than until then.
func (k *keeper) wakeBy(then time.Duration) {
	if then >= k.next {
		return
	}
	k.next = then
	select {
	case k.wake <- struct{}{}:
	default:
	}
}

// run is the loop. It ends when no lease is kept any more.
func (k *keeper) run() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		sleep, more := k.round()
		if !more {
			return
		}
		timer.Reset(sleep)
		select {
		case <-timer.C:
		case <-k.wake:
		}
	}
}

// round has the leases renewed that are due, and returns when the next round is.
func (k *keeper) round() (sleep time.Duration, more bool) {
	now := k.engine.Clocks()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.kept) == 0 {
		k.running = false
		return 0, false
	}
	var d due
	sleep = time.Hour
	for l, of := range k.kept {
		sleep = min(sleep, l.soon())
		if of.taken || l.isOver() {
			continue
		}
		rest, pause := l.rest(now), of.after-now.Mono
		if pause <= 0 && rest <= l.soon() {
			d.add(dueLease{l, rest, of.stuck}, of.alone)
		} else {
			sleep = min(sleep, max(rest, pause))
		}
	}
	if d.soonest > 0 {
		sleep = min(sleep, d.soonest) // and they will fill a command then
	} else {
		k.take(d.renewals(now.Mono))
	}
	k.next = now.Mono + sleep
	return sleep, true
}

// take puts renewals in the order of sending.
func (k *keeper) take(all []renewal) {
	for _, r := range all {
		for _, l := range r.leases {
			of := k.kept[l]
			of.taken = true
			k.kept[l] = of
		}
	}
	k.pending = append(k.pending, all...)
	slices.SortStableFunc(k.pending, renewal.compare)
	k.send()
}

// send sends what is pending and may be under way.
func (k *keeper) send() {
	for len(k.pending) > 0 && k.prompt < mostPrompt && k.out < mostOut {
		r := k.pending[0]
		if r.stuck && k.stuck == mostStuck { // and so are all the others
			return
		}
		k.pending = k.pending[1:]
		k.count(r, 1)
		go k.carryOut(r)
	}
	if len(k.pending) == 0 {
		k.pending = nil
	}
}

func (k *keeper) count(r renewal, n int) {
	k.prompt += n
	k.out += n
	if r.stuck {
		k.stuck += n
	}
}

// carryOut sends one renewal.
func (k *keeper) carryOut(r renewal) {
	leases := k.stillKept(r.leases)
	slow := time.AfterFunc(r.long(), k.makeRoom)
	failed := renew(leases)
	var resting time.Duration
	if failed.trouble {
		resting = rest(leases)
	}
	now := k.engine.Clocks()
	k.mu.Lock()
	defer k.mu.Unlock()
	if !slow.Stop() {
		k.prompt++ // which makeRoom has counted out
	}
	k.count(r, -1)
	k.putBack(leases, failed.alone, resting, now)
	k.send()
}

// makeRoom lets another renewal be sent beside one that is out for long.
func (k *keeper) makeRoom() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.prompt--
	k.send()
}

func (k *keeper) stillKept(all []*Lease) (leases []*Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, l := range all {
		if _, kept := k.kept[l]; kept {
			leases = append(leases, l)
		}
	}
	return leases
}

// putBack lets leases rest until they are due again, or if they were not renewed for
// that time, and for a pause at least.
func (k *keeper) putBack(leases []*Lease, alone bool, resting time.Duration, now engine.Reading) {
	for _, l := range leases {
		of, kept := k.kept[l]
		if !kept {
			continue
		}
		of.taken = false
		if rest := l.rest(now); rest > 0 {
			of.alone, of.stuck, of.after = false, false, 0
			k.wakeBy(now.Mono + rest)
		} else {
			of.stuck = of.stuck || len(leases) == 1
			of.alone, of.after = of.alone || alone, now.Mono+max(resting, l.pause())
			k.wakeBy(of.after)
		}
		k.kept[l] = of
	}
}
