package faults

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
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

var moments = []moment{onRequest, onReply, late, lateGone}

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

// deepest is the last command at which an endlessly waiting operation is
// cancelled.
const deepest = 4

// sideBySide operations are swept at a time. They wait, most of the time.
const sideBySide = 4

// Cancel cancels every operation at every point, or has a command of it executed
// when all is over, and looks at the document afterwards. One sweep is about
// 180 of these.
func Cancel(ctx context.Context, db *mongo.Database, uri string, t *tally.Tally) error {
	var all sync.WaitGroup
	errs := make([]error, len(operations))
	places := make(chan struct{}, sideBySide)
	for i, op := range operations {
		places <- struct{}{}
		all.Go(func() {
			defer func() { <-places }()
			errs[i] = cancelEverywhere(ctx, db, uri, op, t)
		})
	}
	all.Wait()
	return errors.Join(errs...)
}

// cancelEverywhere sweeps one operation, on a stage of its own.
func cancelEverywhere(ctx context.Context, db *mongo.Database, uri string, op operation, t *tally.Tally) error {
	st, err := newStage(db, uri)
	if err != nil {
		return err
	}
	defer st.close()
	if op.gives {
		if _, err := cancelAt(ctx, st, op, point{moment: encoding}, t); err != nil {
			return fmt.Errorf("%s cancelled %v: %w", op.name, point{moment: encoding}, err)
		}
	}
	for n := 0; n <= deepest; n++ {
		reached := false
		for _, m := range moments {
			if n == 0 && m != onRequest || op.waits && m == late {
				continue
			}
			hit, err := cancelAt(ctx, st, op, point{n, m}, t)
			if err != nil {
				return fmt.Errorf("%s cancelled %v: %w", op.name, point{n, m}, err)
			}
			reached = reached || hit
		}
		if !reached {
			break
		}
	}
	return nil
}

func cancelAt(ctx context.Context, st *stage, op operation, p point, t *tally.Tally) (hit bool, err error) {
	var opts []doclock.Option
	if op.shared {
		opts = append(opts, doclock.ShareInProcess("read"))
	}
	s, err := st.scene(ctx, opts...)
	if err != nil {
		return false, err
	}
	unblock := func() error { return nil }
	if op.blocked {
		others, err := st.blocker()
		if err != nil {
			return false, err
		}
		defer others.Close(ctx)
		tag := "read"
		if op.name == "Acquire, refused" {
			tag = "write"
		}
		blocker, err := others.TryAcquire(ctx, s.filter(), tag)
		if err != nil {
			return false, err
		}
		unblock = func() error { return blocker.Release(context.WithoutCancel(ctx)) }
		defer unblock()
	}
	h, err := op.begin(ctx, s)
	if err != nil {
		return false, err
	}

	called, cancel := context.WithCancel(ctx)
	defer cancel()
	fault := st.arm(called, cancel, p)
	s.own = s.values(cancel, p)
	lease, err := op.call(called, s, h)
	s.own.overwrite()
	st.net.Disarm()
	gaveUp := called.Err() != nil
	hit = gaveUp || p.moment == late && fired(fault)
	if hit && p.executedLate() {
		t.Fired(executed, 1)
	}
	if !gaveUp {
		cancel()
	} else {
		t.Fired(cancelled, 1)
		t.Checked(tellsItGave, 1)
		if err != nil && !errors.Is(err, context.Canceled) {
			t.Violated(tellsItGave, "%s, %v: %v", op.name, p, err)
		}
	}
	let := func() error { return nil }
	if fault != nil && hit {
		let = fault.Let
	}
	if !p.executedLate() {
		if err := let(); err != nil {
			return hit, err
		}
	}
	end := func() error { return errors.Join(unblock(), let()) }
	return hit, s.inspect(ctx, op, p, h, lease, err, end, t)
}

// inspect releases what was granted, lets held messages go, waits for the
// background work, and checks.
func (s *scene) inspect(ctx context.Context, op operation, p point, h holding, lease *doclock.Lease, result error, end func() error, t *tally.Tally) error {
	patience, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	if lease == nil {
		lease = h.lease
	}
	if lease != nil {
		err := lease.Release(patience)
		if p.executedLate() && errors.Is(err, doclock.ErrOutcomeUnknown) { // an UpdateAndRelease's
			err = nil
		}
		if err != nil {
			t.Violated(leavesNone, "%s, %v: then Release: %v", op.name, p, err)
		}
	} else if h.ticket != nil {
		if err := h.ticket.Cancel(patience); err != nil {
			t.Violated(leavesNone, "%s, %v: then Cancel: %v", op.name, p, err)
		}
	}
	if p.executedLate() {
		if err := end(); err != nil {
			return err
		}
	}
	if err := s.locks.Close(patience); err != nil {
		return fmt.Errorf("close the locker: %w", err)
	}
	doc, err := s.stored(patience)
	deleted := op.deletes && errors.Is(err, mongo.ErrNoDocuments)
	if err != nil && !deleted {
		return err
	}
	t.Checked(leavesNone, 1)
	if left := doc.entries("swept"); len(left) > 0 {
		t.Violated(leavesNone, "%s, %v: left %v", op.name, p, left)
	}
	decoy, err := s.decoy(patience)
	if err != nil {
		return err
	}
	t.Checked(onlyGiven, 1)
	if doc.Count >= never || decoy.Lock.Tags != nil {
		t.Violated(onlyGiven, "%s, %v: the document is %v, the document without a filter %v", op.name, p, doc, decoy)
	}
	certainlyNot := h.lease != nil && result != nil && !errors.Is(result, doclock.ErrOutcomeUnknown)
	if op.deletes {
		t.Checked(appliedOnce, 1)
		if result == nil && !deleted || certainlyNot && deleted {
			t.Violated(appliedOnce, "%s, %v: result %v, deleted: %v", op.name, p, result, deleted)
		}
	}
	if op.write {
		t.Checked(appliedOnce, 1)
		if doc.Count > 1 || result == nil && doc.Count != 1 || certainlyNot && doc.Count != 0 {
			t.Violated(appliedOnce, "%s, %v: result %v, count %d", op.name, p, result, doc.Count)
		}
	}
	return nil
}

func (s *stage) blocker() (*multilock.Locker, error) {
	return multilock.New(s.other, relations.WritePreferring(), doclock.TTL(time.Minute), doclock.Owner("blocker"))
}

// arm cancels at the point. It returns the held reply, for a later release.
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
