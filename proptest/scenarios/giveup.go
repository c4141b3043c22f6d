package scenarios

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	cancelled   = "context cancelled"
	executed    = "attempt executed when its call had ended"
	leavesNone  = "a caller that gives up leaves no entry"
	tellsItGave = "a caller that gives up gets its answer at once"
	appliedOnce = "a guarded write is applied at most once, and always if reported applied"
)

// point is where the context is cancelled, and what becomes of the command there.
// n = 0 is before the call.
type point struct {
	n int
	moment
}

// moment is the moment of the cancellation.
type moment int

const (
	onRequest moment = iota // the nth command is about to be sent
	onReply                 // the server has executed it, and its reply is on the way
	late                    // not at all; the command is executed after the operation
	lateGone                // the connection has broken; the command is executed after the operation
)

func (p point) String() string {
	if p.n == 0 {
		return "before the call"
	}
	return fmt.Sprintf([...]string{"before request %d", "before reply %d", "request %d executed late", "request %d executed late, and cancelled"}[p.moment], p.n)
}

// giveUps cancels every operation at every point, or has a command of it executed
// when all is over, and looks at the document afterwards. One sweep is about
// 170 of these, and executes some forty attempts late.
func giveUps(t testing.TB, n int, counts *tally.Tally) {
	const deepest = 4 // the last command at which an endlessly waiting operation is cancelled
	for range max(1, n/25) {
		for _, op := range operations {
			s := newStage(t, counts)
			s.giveUp(op, point{0, onRequest})
			for n, reached := 1, true; n <= deepest && reached; n++ {
				reached = false
				for _, m := range []moment{onRequest, onReply, late, lateGone} {
					if !op.waits || m != late {
						reached = s.giveUp(op, point{n, m}) || reached
					}
				}
			}
		}
	}
}

// giveUp reports whether the operation has reached the point.
func (st *stage) giveUp(op operation, p point) (hit bool) {
	var opts []doclock.Option
	if op.shared {
		opts = append(opts, doclock.ShareInProcess("read"))
	}
	s := st.scene(opts...)
	over := func() {}
	if op.blocker != "" {
		others := s.locker(s.other)
		blocker, err := others.TryAcquire(s.Context(), doclock.ID(s.id), op.blocker)
		s.must(err)
		over = func() { s.must(errors.Join(blocker.Release(s.Context()), others.Close(s.Context()))) }
	}
	h := op.begin(s)

	called, cancel := context.WithCancel(s.Context())
	defer cancel()
	fault := s.arm(called, cancel, p)
	lease, err := op.call(called, s, h)
	s.net.Disarm()
	if hit = called.Err() != nil; hit {
		s.Fired(cancelled, 1)
		s.check(tellsItGave, err == nil || errors.Is(err, context.Canceled), "%s, %v: %v", op.name, p, err)
	}
	cancel()
	let := func() {}
	if fault != nil && fired(fault) {
		hit, let = true, func() { s.must(fault.Let()) }
	}
	what, isLate := fmt.Sprintf("%s, %v", op.name, p), hit && p.moment >= late
	if isLate {
		s.Fired(executed, 1)
	} else {
		let()
	}
	s.leave(what, h, lease, isLate)
	over()
	if isLate {
		let()
	}
	s.inspect(op, what, h, err)
	return hit
}

// leave gives back what was granted, or the place of a ticket. A release that comes
// after an UpdateAndRelease with a late command may not know.
func (s *scene) leave(what string, h holding, lease *doclock.Lease, late bool) {
	if lease == nil {
		lease = h.lease
	}
	switch {
	case lease != nil:
		err := lease.Release(s.Context())
		s.check(leavesNone, err == nil || late && errors.Is(err, doclock.ErrOutcomeUnknown), "%s: then Release: %v", what, err)
	case h.ticket != nil:
		err := h.ticket.Cancel(s.Context())
		s.check(leavesNone, err == nil, "%s: then Cancel: %v", what, err)
	}
}

// inspect waits for the background work, and checks the document.
func (s *scene) inspect(op operation, what string, h holding, result error) {
	s.must(s.locks.Close(s.Context()))
	doc, deleted := s.left()
	s.check(leavesNone, len(doc.entries()) == 0, "%s: left %+v", what, doc)
	done, certainlyNot := 0, h.lease != nil && result != nil && !errors.Is(result, doclock.ErrOutcomeUnknown)
	switch {
	case op.deletes && deleted:
		done = 1
	case deleted:
		s.Violated(appliedOnce, "%s: the document is gone", what)
	case op.write:
		done = doc.Count
	case !op.deletes:
		return
	}
	s.check(appliedOnce, done <= 1 && (result != nil || done == 1) && (!certainlyNot || done == 0), "%s: result %v, applied %d times", what, result, done)
}

// arm cancels at the point. It returns the held message, for a later release.
func (s *stage) arm(called context.Context, cancel context.CancelFunc, p point) *faultnet.Fault {
	if p.n == 0 {
		cancel()
		return nil
	}
	var seen atomic.Int32
	nth := func(command string, _ bson.Raw) bool {
		return command == "findAndModify" && seen.Add(1) == int32(p.n)
	}
	if p.moment == onRequest {
		s.net.ArmWhere(faultnet.LoseRequest, func(command string, body bson.Raw) bool {
			if nth(command, body) {
				cancel()
			}
			return false
		})
		return nil
	}
	kind := faultnet.DelayReply
	if p.moment >= late {
		kind = faultnet.Hold
	}
	fault := s.net.ArmWhere(kind, nth)
	if p.moment == late {
		return fault
	}
	go func() {
		select {
		case <-fault.Fired():
			cancel()
		case <-called.Done():
		}
	}()
	return fault
}

func fired(fault *faultnet.Fault) bool {
	select {
	case <-fault.Fired():
		return true
	default:
		return false
	}
}
