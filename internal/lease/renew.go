package lease

import (
	"cmp"
	"context"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This file has the renewals of one lease, those of many in one command, and the keeper that
// has them sent in time.

func (l *Lease) Renew(ctx context.Context) error { return engine.Raise(l.prolong(ctx)) }

// prolong is Renew for goroutines that are not the caller's: it raises no panic.
func (l *Lease) prolong(ctx context.Context) error {
	if err := l.ready(ctx); err != nil {
		return err
	}
	if err := l.lock(ctx, l.renewing); err != nil {
		return err
	}
	err := l.run(ctx, l.sending(nil), func(ctx context.Context) error {
		defer l.renewing.Unlock()
		return l.renew(ctx, l.bounds(), func(error) {})
	})
	l.emitUnknown(ctx, nil, err)
	return err
}

// renew renews with one command, repeated while the lease is valid. It reports each
// attempt.
func (l *Lease) renew(ctx context.Context, bounds engine.Attempts, attempted func(error)) error {
	if err := l.err(); err != nil {
		return err
	}
	left := l.Remaining()
	ctx, cancel := context.WithTimeout(ctx, left)
	defer cancel()
	bounds.Pause = left / 8 // no lease is lost by waiting
	var got engine.Answer
	_, err := attempt.Settle(ctx, bounds, func(ctx context.Context) (err error) {
		ctx, cancel := context.WithTimeout(ctx, l.Remaining())
		defer cancel()
		got, err = l.commands.Renew(ctx, l.grant)
		l.emitRenewal(got.Outcome, err)
		attempted(err)
		return err
	})
	if err != nil {
		if over := l.err(); over != nil {
			return oneline.Join(over, err)
		}
		return l.failed("renew", err)
	}
	if got.Outcome == engine.Lost {
		return l.lose(got)
	}
	l.extend(validity{from: got.Sent, ttl: l.grant.TTL})
	return l.err()
}

const (
	// batchSize is the most leases that one command renews. Each of them waits
	// for all the others, and so does a release of one of them. A larger batch
	// would save little: a statement costs the server more than its share of the
	// command.
	batchSize = 100

	// perStatement is the part of an attempt's time that each lease of a batch
	// takes: batches of short leases are smaller.
	perStatement = 2 * time.Millisecond
)

// inBatch is the most leases that a batch has with this one.
func (l *Lease) inBatch() int { return max(1, min(batchSize, int(l.bounds().Timeout/perStatement))) }

// long is when a command for these leases has taken long. The leases of a whole batch,
// renewed one by one, four at a time, must all be sent in a small part of the time
// that they have left.
func long(leases []*Lease) time.Duration {
	return shortest(leases, func(l *Lease) time.Duration { return l.left() / 128 })
}

func shortest(leases []*Lease, of func(*Lease) time.Duration) time.Duration {
	least := time.Duration(math.MaxInt64)
	for _, l := range leases {
		least = min(least, of(l))
	}
	return least
}

// failure says what a renewal's failure means for the next try. The zero failure is
// none, or one that means nothing.
type failure struct {
	alone   bool  // those that were not renewed share no command any more: one of them may be the reason
	trouble bool  // the server's (engine.Failure), and a rest helps it
	err     error // some may not be renewed
}

// renew renews leases with one command, except those that are being renewed or
// released already. One by itself leaves time for the commands that wait.
func renew(leases []*Lease, waiting int) failure {
	var ours []*Lease
	for _, l := range leases {
		if l.renewing.TryLock() {
			defer l.renewing.Unlock()
			if l.err() == nil {
				ours = append(ours, l)
			}
		}
	}
	switch len(ours) {
	case 0:
		return failure{}
	case 1:
		return renewOne(ours[0], waiting)
	default:
		slices.SortFunc(ours, func(a, b *Lease) int { return a.grant.Pin.Compare(b.grant.Pin) })
		return renewAll(ours)
	}
}

// renewOne renews a lease by itself. A loss ends the lease; any other error is tried
// again, after a rest if the server has trouble. It has got three messages by then:
// after an overload error the driver sends two more by itself.
func renewOne(l *Lease, waiting int) (f failure) {
	bounds := l.bounds()
	if waiting > batchSize {
		bounds.Timeout = min(bounds.Timeout, l.left()/2/time.Duration(waiting)*batchSize)
	}
	ctx, cancel := context.WithTimeout(counted(context.Background(), []*Lease{l}), bounds.Timeout)
	defer cancel()
	attempts := 0
	_ = l.renew(ctx, bounds, func(err error) {
		attempts++
		f.trouble = trouble(err)
		if f.trouble && (attempts == 3 || engine.AsFailure(err).Trouble == engine.Overloaded) {
			cancel()
		}
	})
	return f
}

// trouble says that an error is the server's trouble.
func trouble(err error) bool { return err != nil && engine.AsFailure(err).Trouble != engine.NoTrouble }

// renewAll renews leases by rule 20. If the command matched all of their entries,
// they are valid from its send on. If not, a read shows for how long each of them
// stands.
func renewAll(leases []*Lease) failure {
	with := leases[0].locker
	grants := make([]engine.Grant, len(leases))
	for i, l := range leases {
		grants[i] = l.grant
	}
	ctx, cancel := timeoutFor(leases)
	got, failed := with.commands.RenewAll(ctx, grants)
	cancel()
	if got.Outcome == engine.Renewed {
		for _, l := range leases {
			l.extend(validity{from: got.Sent, ttl: l.grant.TTL})
			l.emitRenewal(engine.Renewed, nil)
		}
		return failure{}
	}
	emitFailedRenewals(leases, failed)
	if trouble(failed) && engine.AsFailure(failed).Nothing { // a read would tell what is known
		return failure{trouble: true, err: failed}
	}
	ctx, cancel = timeoutFor(leases)
	defer cancel()
	standing, sent, err := with.commands.Standing(ctx, grants)
	if failed == nil {
		emitFailedRenewals(leases, err)
	}
	if err != nil {
		return failure{trouble: trouble(failed) || trouble(err), err: err} // nobody answers: no lease is the reason
	}
	for i, l := range leases {
		entry := standing[i]
		switch {
		case entry.Lost == nil:
			l.extend(lasting(entry.Left, sent, l.grant.TTL))
			if failed == nil {
				l.emitRenewal(engine.Renewed, nil)
			}
		case failed == nil:
			_ = l.lose(*entry.Lost)
		}
	}
	return failure{alone: failed != nil && !brokenOff(failed) && !trouble(failed), trouble: trouble(failed), err: failed}
}

// brokenOff says that a connection broke, and that nobody waited for an answer
// in vain: no document is the reason. To renew a hundred leases one by one would
// then take a hundred commands, and on new connections more time than is left.
func brokenOff(err error) bool { return mongo.IsNetworkError(err) && !mongo.IsTimeout(err) }

// rest is how long leases rest together that the server's trouble has kept from being
// renewed: about half of the time that they have left. So the rests shrink with that
// time, and a few tries remain whenever the trouble ends. The leases of one command have
// one rest, or else each would need a command of its own.
func rest(leases []*Lease) time.Duration {
	pause := shortest(leases, func(l *Lease) time.Duration { return max(l.pause(), l.left()/2) })
	return pause/2 + rand.N(pause)
}

// timeoutFor bounds a command for several leases: by the attempt timeout, and
// so that each has time left for a command of its own.
func timeoutFor(leases []*Lease) (context.Context, context.CancelFunc) {
	timeout := shortest(leases, func(l *Lease) time.Duration { return min(l.bounds().Timeout, l.left()/2) })
	return context.WithTimeout(counted(context.Background(), leases), timeout)
}

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
	prompt, out, stuck attempt.Gate  // the places of commands
	waiting            atomic.Int64  // usual commands that have no place yet

	mu      sync.Mutex // taken before a lease's
	running bool       // the loop is
	kept    map[*Lease]keeping
	next    time.Duration // when the loop looks again, on the monotonic clock
}

func newKeeper(e *engine.Engine) keeper {
	return keeper{
		engine: e, wake: make(chan struct{}, 1),
		prompt: make(attempt.Gate, mostPrompt), out: make(attempt.Gate, mostOut), stuck: make(attempt.Gate, mostStuck),
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
	k.waiting.Add(int64(len(usual)))
	go k.send(usual, k.out)
	go k.send(stuck, k.stuck)
}

// send sends commands, each as soon as it has its places.
func (k *keeper) send(commands [][]*Lease, places attempt.Gate) {
	for _, leases := range commands {
		places <- struct{}{}
		k.prompt <- struct{}{}
		go k.carryOut(leases, places)
	}
}

// carryOut sends one command. One that takes long leaves its first place to another.
func (k *keeper) carryOut(leases []*Lease, places attempt.Gate) {
	defer places.Unlock()
	k.mu.Lock()
	leases = slices.DeleteFunc(leases, func(l *Lease) bool { _, kept := k.kept[l]; return !kept })
	k.mu.Unlock()
	waiting := 0
	if places == k.out { // else it is stuck, and delays no others
		waiting = int(k.waiting.Add(-1))
	}
	slow := time.AfterFunc(long(leases), k.prompt.Unlock)
	failed := renew(leases, waiting)
	if slow.Stop() {
		k.prompt.Unlock()
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
