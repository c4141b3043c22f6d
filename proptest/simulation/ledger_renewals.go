package simulation

import (
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/proptest/history"
)

// This file checks the renewals, against the replies that the driver has seen.

// renewed is a renewal's outcome for one entry.
type renewed struct {
	at     time.Time
	failed bool
}

// renewals checks the renewals of one entry. lives are the leases of that entry. A
// renewal that is answered at the very instant of a grant or an end may be told or not.
func (l *ledger) renewals(lives []*life) {
	first, last := lives[0].granted.Time, time.Time{}
	for _, of := range lives {
		if of.end == nil {
			return
		}
		if of.end.Time.After(last) {
			last = of.end.Time
		}
	}
	var least, most, told [2]int // executed, and failed
	for _, r := range l.answersTo(lives[0]) {
		i := 0
		if r.failed {
			i = 1
		}
		if r.at.Before(first) || r.at.After(last) {
			continue
		}
		most[i]++
		if r.at.After(first) && r.at.Before(last) {
			least[i]++
		}
	}
	for _, e := range lives[0].program.events {
		if text(e.LeaseID) != lives[0].id {
			continue
		}
		switch e.Kind {
		case doclock.EventRenewed:
			told[0]++
			l.check(RenewalsTold, e.Err == nil, "%v", l.show(e))
		case doclock.EventRenewalFailed:
			told[1]++
			l.check(RenewalsTold, e.Err != nil, "%v", l.show(e))
		default:
			continue
		}
		l.check(RenewalsTold, !e.Time.Before(first) && !e.Time.After(last), "%v comes before the grant or after the end", l.show(e))
		grants := slices.ContainsFunc(lives, func(of *life) bool {
			return e.Time.Add(-e.Held).Equal(of.granted.Time) && of.granted.call == e.call
		})
		l.check(DurationsRight, grants, "%v, and it was granted at %s", l.show(e), at(first))
	}
	l.check(RenewalsTold, least[0] <= told[0] && told[0] <= most[0], "lease %s: %d renewals were told, and %d to %d executed", lives[0].id, told[0], least[0], most[0])
	if l.unsureIn(first, last) {
		most[1] += told[1] // those that were not sent
	}
	l.check(RenewalsTold, least[1] <= told[1] && told[1] <= most[1], "lease %s: %d renewals were told as failed, and %d to %d have: %v", lives[0].id, told[1], least[1], most[1], l.failures(lives[0]))
}

// answersTo are the outcomes of the entry's renewals. That of several is executed where
// it matched all. Where it did not, a read tells: an entry that is there was renewed.
func (l *ledger) answersTo(of *life) (all []renewed) {
	var asks *command // a renewal of several that did not match all
	add := func(c *command, executed bool) {
		if c.failed || executed {
			all = append(all, renewed{c.answered, c.failed})
		}
	}
	for _, c := range l.commands {
		if c.program != of.program {
			continue
		}
		switch {
		case c.answered.IsZero():
		case c.kind == history.CommandRenew && c.names(of.id) && (c.call == nil || c.call.name == "Renew"):
			add(c, c.matched)
		case c.name == "update" && c.call == nil && c.names(of.id):
			add(c, c.matched)
			asks = nil
			if !c.failed && !c.matched {
				asks = c
			}
		case c.name == "find" && c.call == nil && asks != nil && !c.sent.Before(asks.answered):
			add(c, slices.Contains(c.found, of.id))
			asks = nil
		}
	}
	return all
}

// failures are the renewals of an entry that were told as failed.
func (l *ledger) failures(of *life) (text string) {
	for _, e := range of.program.events {
		if e.Kind == doclock.EventRenewalFailed && e.LeaseID == of.granted.LeaseID {
			text += l.show(e) + "; "
		}
	}
	return text
}
