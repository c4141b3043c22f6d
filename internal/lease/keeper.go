package lease

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/engine"
)

// Somebody may lock documents against all writes, and a renewal that waits for one of
// them must delay no others. So a command that takes long leaves its place to another,
// and leases that can't be renewed even alone are stuck, and have places of their own.
const (
	mostPrompt = 4  // commands that have not taken long yet
	mostOut    = 84 // commands in all: nearly each lease of a batch can be out by itself
	mostStuck  = 16 // commands for stuck leases, beside these
)

// keeper keeps all leases of one Locker alive that a KeepAlive asks for. It has
// one goroutine while there are any, one for each command that is under way, and one for
// each round whose commands are not all sent yet.
//
// A lease is due when a third of its TTL has passed. Leases that are due soon are
// renewed with it, so that commands are few and full.
type keeper struct {
	engine             *engine.Engine
	wake               chan struct{} // makes the loop look now
	prompt, out, stuck gate          // the places of commands

	mu      sync.Mutex // taken before a lease's
	running bool       // the loop is
	kept    map[*Lease]keeping
	next    time.Duration // when the loop looks again, on the monotonic clock
}

func newKeeper(e *engine.Engine) keeper {
	return keeper{
		engine: e, wake: make(chan struct{}, 1),
		prompt: make(gate, mostPrompt), out: make(gate, mostOut), stuck: make(gate, mostStuck),
	}
}

// keeping is what the keeper knows of a lease.
type keeping struct {
	wanted int           // KeepAlives that ask for it
	busy   bool          // its command is to be sent, or under way
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
	var due []dueLease
	sleep = time.Hour
	soonest := sleep
	for l, of := range k.kept {
		sleep = min(sleep, l.soon())
		if of.busy || l.isOver() {
			continue
		}
		rest, pause := l.rest(now), of.after-now.Mono
		if pause <= 0 && rest <= l.soon() {
			due = append(due, dueLease{l, rest, of})
			soonest = min(soonest, rest)
		} else {
			sleep = min(sleep, max(rest, pause))
		}
	}
	if soonest > 0 {
		sleep = min(sleep, soonest) // and they will fill a command then
	} else if len(due) > 0 {
		k.renew(due)
	}
	k.next = now.Mono + sleep
	return sleep, true
}

// dueLease is a lease to renew.
type dueLease struct {
	*Lease
	rest time.Duration // until it must be renewed
	keeping
}

// renew has leases renewed, the most urgent first: together, or alone.
func (k *keeper) renew(due []dueLease) {
	slices.SortFunc(due, func(a, b dueLease) int { return cmp.Compare(a.rest, b.rest) })
	var usual, stuck [][]*Lease
	batch, size := 0, 0 // the last of the usual that several share
	for _, l := range due {
		l.busy = true
		k.kept[l.Lease] = l.keeping
		switch {
		case l.alone && l.stuck:
			stuck = append(stuck, []*Lease{l.Lease})
		case !l.alone && size > 0 && len(usual[batch]) < min(size, l.inBatch()):
			usual[batch] = append(usual[batch], l.Lease)
			size = min(size, l.inBatch())
		default:
			if !l.alone {
				batch, size = len(usual), l.inBatch()
			}
			usual = append(usual, []*Lease{l.Lease})
		}
	}
	go k.send(usual, k.out)
	go k.send(stuck, k.stuck)
}

// send sends commands, each as soon as it has its places.
func (k *keeper) send(commands [][]*Lease, places gate) {
	for _, leases := range commands {
		places <- struct{}{}
		k.prompt <- struct{}{}
		go k.carryOut(leases, places)
	}
}

// carryOut sends one command. One that takes long leaves its first place to another.
func (k *keeper) carryOut(leases []*Lease, places gate) {
	defer places.unlock()
	leases = k.stillKept(leases)
	slow := time.AfterFunc(long(leases), k.prompt.unlock)
	failed := renew(leases)
	if slow.Stop() {
		k.prompt.unlock()
	}
	var resting time.Duration
	if failed.trouble {
		resting = rest(leases)
	}
	now := k.engine.Clocks()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.putBack(leases, failed.alone, resting, now)
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
		of.busy = false
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
