package main

import (
	"context"
	"os"
	"time"

	"github.com/doclock/doclock"
)

// watched is a command that runs under a lease, and ends with it.
type watched struct {
	lease   *doclock.Lease
	kept    context.Context // of KeepAlive: it ends when the lease does
	grace   time.Duration
	signals <-chan os.Signal
	say     func(on bool, event, format string, args ...any)

	ended bool // by doclock, because of the lease
}

// run runs the command to its end. The error says that it was not started.
func (w *watched) run(path string, command, env []string) (code int, err error) {
	p, err := start(path, command, env)
	if err != nil {
		return 0, err
	}
	suspended, stop := suspensions(p.own)
	defer stop()
	lost := w.kept.Done()
	timer := time.NewTimer(w.untilTerm())
	defer timer.Stop()
	for {
		select {
		case code := <-p.ended:
			if w.ended {
				p.endOthers(timer.C)
			}
			return code, nil
		case s := <-w.signals:
			p.forward(s)
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
			case w.untilTerm() > 0:
				timer.Reset(w.untilTerm())
			default:
				w.end(p, timer, "the lock can't be renewed")
			}
		}
	}
}

// untilTerm is how long the command may run without a renewal.
func (w *watched) untilTerm() time.Duration { return w.lease.Remaining() - w.grace }

// end tells the command to end, and lets the timer say when it must.
func (w *watched) end(p *process, timer *time.Timer, why string) {
	w.ended = true
	w.say(true, "lost", "%s: the command gets TERM, and KILL in %v", why, w.grace)
	p.terminate()
	timer.Reset(w.grace)
}
