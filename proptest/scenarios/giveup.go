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
	onlyGiven   = "a caller's later changes of its values are neither written nor locked"
)

// point is where the context is cancelled, and what becomes of the command
// there. n = 0 is before the call, or while its values are being encoded.
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
	encoding                // the caller's values are being encoded
)

func (m moment) executedLate() bool { return m == late || m == lateGone }

func (p point) String() string {
	switch {
	case p.moment == encoding:
		return "while its values are encoded"
	case p.n == 0:
		return "before the call"
	}
	return fmt.Sprintf([...]string{"before request %d", "before reply %d", "request %d executed late", "request %d executed late, and cancelled"}[p.moment], p.n)
}

// giveUps cancels every operation at every point, or has a command of it executed
// when all is over, and looks at the document afterwards. One sweep is about
// 180 of these, and executes some forty attempts late.
func giveUps(t testing.TB, n int, counts *tally.Tally) {
	const deepest = 4 // the last command at which an endlessly waiting operation is cancelled
	for range max(1, n/25) {
		for _, op := range operations {
			s := newStage(t, counts)
			if op.gives {
				s.giveUp(op, point{0, encoding})
			}
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
	unblock := func() error { return nil }
	if op.blocker != "" {
		others := s.others()
		blocker, err := others.TryAcquire(s.Context(), s.filter(), op.blocker)
		s.must(err)
		unblock = func() error { return errors.Join(blocker.Release(s.Context()), others.Close(s.Context())) }
	}
	h := op.begin(s)

	called, cancel := context.WithCancel(s.Context())
	defer cancel()
	fault := s.arm(called, cancel, p)
	s.own = s.values(cancel, p)
	lease, err := op.call(called, s, h)
	s.own.overwrite()
	s.net.Disarm()
	hit = called.Err() != nil
	if hit {
		s.Fired(cancelled, 1)
		s.check(tellsItGave, err == nil || errors.Is(err, context.Canceled), "%s, %v: %v", op.name, p, err)
	}
	let := func() error { return nil }
	if fault != nil && fired(fault) {
		hit, let = true, fault.Let
	}
	cancel()
	if hit && p.executedLate() {
		s.Fired(executed, 1)
	} else {
		s.must(let())
		let = func() error { return nil }
	}
	s.inspect(op, p, h, lease, err, func() { s.must(errors.Join(unblock(), let())) })
	return hit
}

// inspect releases what was granted, lets held messages go, waits for the
// background work, and checks.
func (s *scene) inspect(op operation, p point, h holding, lease *doclock.Lease, result error, over func()) {
	what := fmt.Sprintf("%s, %v", op.name, p)
	if lease == nil {
		lease = h.lease
	}
	switch {
	case lease != nil:
		err := lease.Release(s.Context())
		unknown := p.executedLate() && errors.Is(err, doclock.ErrOutcomeUnknown) // an UpdateAndRelease's
		s.check(leavesNone, err == nil || unknown, "%s: then Release: %v", what, err)
	case h.ticket != nil:
		err := h.ticket.Cancel(s.Context())
		s.check(leavesNone, err == nil, "%s: then Cancel: %v", what, err)
	}
	if p.executedLate() {
		over()
	} else {
		defer over()
	}
	s.close()
	doc, deleted := s.stored(s.id)
	s.check(leavesNone, len(doc.of("swept")) == 0, "%s: left %v", what, doc)
	decoy, _ := s.stored(s.decoyID())
	s.check(onlyGiven, doc.Count < never && decoy.Lock.Tags == nil, "%s: the document is %v, the document without a filter %v", what, doc, decoy)
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
	if p.moment == encoding { // the encoding cancels
		return nil
	}
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
	if p.executedLate() {
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
