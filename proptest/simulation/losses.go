package simulation

import (
	"errors"
	"slices"

	"github.com/doclock/doclock"
)

// This file checks what callers and observers are told of a loss.

// lost is a lock that a call may be told to have lost.
type lost struct {
	document, tag string
	group         *group
	holding       *holding // or nil
}

// losses checks that each loss names its own lock, and a reason that can be.
func (l *ledger) losses() {
	for _, c := range l.calls {
		said := (*doclock.LostError)(nil)
		if !errors.As(c.err, &said) {
			l.check(LossesTrue, !errors.Is(c.err, doclock.ErrLost) || c.panicked, "%s: no lock is named", l.name(c))
			continue
		}
		document, _ := said.DocumentID.StringValueOK()
		mine := slices.DeleteFunc(c.locks(), func(of lost) bool { return of.document != document || of.tag != said.Tag })
		if !l.check(LossesTrue, len(mine) > 0 && said.Collection == c.program.name(), "%s names %q on %q of %s", l.name(c), said.Tag, document, said.Collection) {
			continue
		}
		l.check(LossesTrue, slices.ContainsFunc(mine, func(of lost) bool { return of.canBe(said.Reason, c, l.virtual()) }), "%s can't be %q", l.name(c), said.Reason)
		l.check(LossesTrue, !said.Since.After(c.ended) || !l.exact(), "%s is lost since %s", l.name(c), at(said.Since))
		for _, h := range said.Holders {
			l.check(LossesTrue, !slices.ContainsFunc(mine, func(of lost) bool { return of.holding != nil && of.holding.id == text(h.ID) }), "%s names itself as the holder", l.name(c))
		}
		l.counts.Seen("lost: "+string(said.Reason), 1)
	}
	for _, p := range l.programs {
		for _, e := range p.events {
			said := (*doclock.LostError)(nil)
			named := errors.As(e.Err, &said)
			l.check(LossesTrue, e.Kind != doclock.EventLost || named && said.DocumentID.Equal(e.DocumentID) && said.Tag == e.Tag, "%v", l.show(e))
		}
	}
}

// locks are those that a call has, or shows a token of.
func (c *call) locks() (all []lost) {
	of := func(h *holding) lost {
		name, _ := h.lease.DocumentID().StringValueOK()
		return lost{name, h.lease.Tag(), h.group, h}
	}
	if c.lease != nil {
		all = append(all, of(c.lease))
	}
	if c.token != nil {
		all = append(all, lost{c.token.document, c.token.tag, c.token.group, nil})
	}
	for _, a := range c.acquires {
		if a.holding != nil {
			all = append(all, of(a.holding))
		} else {
			all = append(all, lost{a.document, a.tag, a.group, nil})
		}
	}
	return all
}

// canBe says that a lock can have been lost for this reason. In real time a
// lease's may be up before Do has begun to renew it.
func (of lost) canBe(reason doclock.LossReason, c *call, virtual bool) bool {
	switch reason {
	case doclock.LossHeldAtMost: // a conversion's is that of the lease before
		return of.holding != nil && (of.holding.of == nil || of.holding.of.most > 0)
	case doclock.LossDocumentDeleted:
		return slices.Contains(of.group.deleted, of.document)
	case doclock.LossNotRenewed: // Do renews until the release is sent, unless the function's context ends before
		closed := c.program.closed
		return of.holding != nil && (!virtual || !c.does() || c.over != nil || !closed.IsZero() && closed.Before(c.ended))
	case doclock.LossExpired, doclock.LossEntryRemoved:
		return true
	default:
		return false
	}
}
