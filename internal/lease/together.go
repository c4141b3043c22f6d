package lease

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This file has the commands of several leases that their holder ends or renews together.
// The leases of one Locker share a command. A lease that is busy, or that needs a command of
// another kind, has one of its own.

// departure is a release that has begun.
type departure struct {
	*Lease
	verdict *verdict
	to      *handoff
}

// ReleaseAll releases each lease as [Lease.Unlock] does, and returns each one's error.
func ReleaseAll(ctx context.Context, leases []*Lease) []error {
	verdicts := make([]*verdict, len(leases))
	mine := map[*locker][]*departure{}
	for i, l := range leases {
		if engine.InTransaction(ctx) {
			continue
		}
		v, first := l.claim()
		if verdicts[i] = v; first {
			mine[l.locker] = append(mine[l.locker], &departure{Lease: l, verdict: v})
		}
	}
	for with, all := range mine {
		ctx := attempt.Detached(ctx)
		if len(all) == 1 {
			all[0].begin(ctx, all[0].verdict)
			continue
		}
		with.ops.Go(func() { leaveTogether(ctx, all) })
	}
	return each(leases, func(i int, l *Lease) error {
		if verdicts[i] == nil {
			return l.inTransaction()
		}
		return l.await(ctx, verdicts[i])
	})
}

// each is the error of each lease, all asked at the same time.
func each(leases []*Lease, ask func(int, *Lease) error) []error {
	errs := make([]error, len(leases))
	var all sync.WaitGroup
	for i, l := range leases {
		all.Go(func() { errs[i] = ask(i, l) })
	}
	all.Wait()
	return errs
}

// leaveTogether releases the leases of one Locker: those that are certain to have their
// entries, and that nobody waits for here, with one command.
func leaveTogether(ctx context.Context, all []*departure) {
	var together []*departure
	for _, d := range all {
		switch {
		case !d.tryLockWrites():
			d.begin(ctx, d.verdict)
		case d.isUndecided() != nil, !d.renewing.TryLock():
			d.unlockWrites()
			d.begin(ctx, d.verdict)
		case d.giveWay(ctx, d.verdict):
			d.unlockAll()
		default:
			if d.to = d.handoff(); d.isCertain() {
				together = append(together, d)
			} else {
				d.alone(ctx, nil)
			}
		}
	}
	if len(together) == 1 {
		together[0].alone(ctx, nil)
	} else if len(together) > 1 {
		slices.SortFunc(together, func(a, b *departure) int { return a.grant.Pin.Compare(b.grant.Pin) })
		sendReleases(ctx, together)
	}
}

// isCertain says that only the lease's own release, or an operator, takes the entry out for
// some time, and that a release needs no more than that.
func (d *departure) isCertain() bool {
	g := d.last()
	return d.to.next == nil && d.declaredLoss() == nil && d.left() > 0 && g.Key == uuid.Nil && g.Until.Equal(d.grant.Until)
}

// alone sends a release by itself.
func (d *departure) alone(ctx context.Context, unsure error) {
	d.ops.Go(func() {
		defer d.unlockAll()
		d.depart(ctx, d.verdict, d.to, unsure)
	})
}

// end settles the verdict.
func (d *departure) end(ctx context.Context, err error) {
	d.conclude(ctx, d.verdict, err)
	d.to.close(err)
	d.unlockAll()
}

// sendReleases sends the releases in one command. It counts those that it has not found, and
// doesn't name them: then each is read, or released by itself. If it takes too long, somebody may
// have locked one of the documents, and must keep the others from being released no longer. Neither
// must one whose release fails.
func sendReleases(ctx context.Context, all []*departure) {
	leases, grants := make([]*Lease, len(all)), make([]engine.Grant, len(all))
	for i, d := range all {
		leases[i], grants[i] = d.Lease, d.grant
		d.giveUp() // before anything is sent
	}
	ctx = counted(ctx, leases)
	var late error // of an attempt that took too long, or failed in part
	missing, unsure, err := settle(ctx, longest(all), func(ctx context.Context) (int, error) {
		missing, err := all[0].commands.ReleaseAll(ctx, grants)
		if (mongo.IsTimeout(err) || engine.AnsweredPartly(err)) && !engine.AsFailure(err).Nothing {
			late, err = err, nil
		}
		return missing, err
	})
	switch {
	case late != nil: // as if it had not found those that the read doesn't show
		readReleases(ctx, all, grants, missing, cmp.Or(unsure, late))
	case engine.AnsweredPartly(err), err == nil && missing > 0: // some are released
		readReleases(ctx, all, grants, missing, unsure)
	case err != nil && engine.AsFailure(err).Refused(): // one document may be the reason
		for _, d := range all {
			d.alone(ctx, unsure)
		}
	case err != nil:
		for _, d := range all {
			d.end(ctx, d.Judge(d.noAnswer("release", unsure, err)))
		}
	default:
		for _, d := range all {
			d.end(ctx, nil)
		}
	}
}

// longest is the lease whose entry is kept for longest: for as long the command is repeated.
func longest(all []*departure) *Lease {
	return slices.MaxFunc(all, func(a, b *departure) int { return cmp.Compare(a.kept(), b.kept()) }).Lease
}

var errSomeMissing = errors.New("some of the entries that were to be released together may have gone before, and nobody knows which")

// readReleases gives the verdicts after a command that has not found some of the entries.
// Where nothing but the own release can have taken the entry out, it has. If those that may
// be lost are as many as were missing, and no attempt before has released some, they are;
// else nobody knows which.
func readReleases(ctx context.Context, all []*departure, grants []engine.Grant, missing int, unsure error) {
	standing, _, err := settle(ctx, longest(all), func(ctx context.Context) ([]engine.Standing, error) {
		standing, _, err := all[0].commands.Standing(ctx, grants)
		return standing, err
	})
	if err != nil {
		for _, d := range all {
			d.end(ctx, d.unknown("release", oneline.Join(errSomeMissing, unsure, err)))
		}
		return
	}
	doubtful := 0
	may := make([]bool, len(all))
	for i, d := range all {
		lost := standing[i].Lost
		may[i] = lost == nil || d.suspect(lost.Image) != nil || d.left() <= 0
		if may[i] {
			doubtful++
		}
	}
	for i, d := range all {
		switch lost := standing[i].Lost; {
		case lost == nil:
			d.alone(ctx, unsure)
		case unsure == nil && doubtful < missing, may[i] && (unsure != nil || doubtful > missing):
			d.end(ctx, d.unknown("release", oneline.Join(errSomeMissing, unsure)))
		case may[i]:
			d.end(ctx, d.lose(*lost))
		default:
			d.end(ctx, nil)
		}
	}
}

// RenewAll renews each lease as [Lease.Renew] does, and returns each one's error. A lease that
// the command has not renewed for certain is renewed by itself.
func RenewAll(ctx context.Context, leases []*Lease) []error {
	mine := map[*locker][]*Lease{}
	for _, l := range leases {
		if ctx.Err() == nil && l.ready(ctx) == nil && l.err() == nil && l.renewing.TryLock() {
			mine[l.locker] = append(mine[l.locker], l)
		}
	}
	var mu sync.Mutex
	renewed := map[*Lease]error{}
	var all sync.WaitGroup
	for with, own := range mine {
		slices.SortFunc(own, func(a, b *Lease) int { return a.grant.Pin.Compare(b.grant.Pin) })
		if len(own) == 1 {
			own[0].renewing.Unlock()
			continue
		}
		all.Go(func() {
			got, gone := attempt.Run(ctx, with.ops, func() failure { return renewTogether(own) }, func(failure) {})
			mu.Lock()
			defer mu.Unlock()
			for _, l := range own {
				switch over := l.err(); {
				case errors.Is(over, doclock.ErrLost):
					renewed[l] = oneline.Join(over, got.err)
				case gone != nil:
					renewed[l] = l.gaveUp(ctx)
				case got.alone:
				case got.err == nil:
					renewed[l] = over
				case over != nil:
					renewed[l] = oneline.Join(over, got.err)
				default:
					renewed[l] = l.failed("renew", got.err)
				}
			}
		})
	}
	all.Wait()
	return each(leases, func(_ int, l *Lease) error {
		if err, known := renewed[l]; known {
			l.emitUnknown(ctx, nil, err)
			return err
		}
		return l.prolong(ctx)
	})
}

// renewTogether renews leases of one Locker, whose gates are locked, with one command, which
// it repeats while all are valid. They are alone, too, where the others may be valid for longer.
func renewTogether(leases []*Lease) (f failure) {
	left := leases[0].Remaining()
	for _, l := range leases {
		defer l.renewing.Unlock()
		left = min(left, l.Remaining())
	}
	ctx, cancel := context.WithTimeout(context.Background(), left)
	defer cancel()
	bounds := leases[0].bounds()
	bounds.Pause = left / 8 // no lease is lost by waiting
	_, f.err = attempt.Settle(ctx, bounds, func(context.Context) error {
		got := renewAll(leases)
		if f.alone = (got.alone || engine.AnsweredPartly(got.err)) && engine.PanicIn(got.err) == nil; f.alone {
			return nil
		}
		return got.err
	})
	f.alone = f.alone || f.err != nil && ctx.Err() != nil && engine.PanicIn(f.err) == nil
	return f
}
