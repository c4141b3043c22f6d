package main

import (
	"context"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/doclock/doclock"
)

// watched is a command that runs under a lease, and ends with it.
type watched struct {
	lease   *doclock.Lease
	kept    context.Context // of KeepAlive: it ends when the lease does
	grace   time.Duration
	limit   time.Time // the lease ends then at the latest; zero for never
	signals <-chan os.Signal
	say     func(on bool, event, format string, args ...any)

	ended bool           // by doclock, because of the lease
	over  bool           // and of its limit
	said  sync.WaitGroup // of a message
}

// lookEvery is how often run looks whether all have ended that were told to,
// proceedEvery how often it continues those of them that were stopped since, and
// killsFor how long it goes on with those that can't be killed.
const (
	lookEvery    = 20 * time.Millisecond
	proceedEvery = time.Second
	killsFor     = time.Second
)

// run runs the command to its end. The error says that it was not started. If it
// was told to end, by a TERM or because of the lease, run also waits for the
// processes that it has started.
func (w *watched) run(path string, command, env []string) (ended end, err error) {
	p, err := start(path, command, env, leaseVariable(w.lease))
	if err != nil {
		return end{}, err
	}
	suspended, stop := suspensions(p.own)
	defer stop()
	defer w.said.Wait()
	lost := w.kept.Done()
	timer := time.NewTimer(w.untilTerm())
	defer timer.Stop()
	var told bool
	var killed time.Time
	var look <-chan time.Time // whether the others live, when the command has ended
	var proceed <-chan time.Time
	for {
		select {
		case ended = <-p.ended:
			if !told && !w.ended || !p.alive() {
				return ended, nil
			}
			ticker := time.NewTicker(lookEvery)
			defer ticker.Stop()
			look = ticker.C
		case <-look:
			if !p.alive() || !killed.IsZero() && time.Since(killed) > killsFor {
				return ended, nil
			}
			if !killed.IsZero() {
				p.kill() // those that were started beside the last kill
			}
		case s := <-w.signals:
			p.forward(s)
			if s == syscall.SIGTERM && !told {
				told = true
				ticker := time.NewTicker(proceedEvery)
				defer ticker.Stop()
				proceed = ticker.C
			}
		case <-proceed: // or it would be waited for, and the lock renewed, for ever
			p.proceed()
		case <-suspended:
			p.suspend()
		case <-lost:
			lost = nil
			if !w.ended {
				w.end(p, timer, "the lock is lost")
			}
		case <-timer.C:
			switch {
			case w.ended:
				p.kill()
				killed = time.Now()
			case w.untilTerm() > 0:
				timer.Reset(w.untilTerm())
			default:
				w.over = w.atLimit()
				w.end(p, timer, w.reason())
			}
		}
	}
}

// untilTerm is how long the command may run without a renewal.
func (w *watched) untilTerm() time.Duration { return w.lease.Remaining() - w.grace }

// atLimit says that it is the limit that leaves no more time, and no renewal that
// failed. It counts from before the answer to the acquire.
func (w *watched) atLimit() bool {
	const answer = time.Second
	return !w.limit.IsZero() && time.Until(w.limit) <= w.grace+answer
}

func (w *watched) reason() string {
	if w.over {
		return "the time of --at-most is over"
	}
	return "the lock can't be renewed"
}

// end tells the command to end, and lets the timer say when it must. Nobody may
// be reading what is said, and that delays neither.
func (w *watched) end(p *process, timer *time.Timer, why string) {
	w.ended = true
	p.terminate()
	timer.Reset(w.grace)
	w.said.Go(func() { w.say(true, "lost", "%s: the command gets TERM, and KILL in %v", why, w.grace) })
}
