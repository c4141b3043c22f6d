package main

import (
	"fmt"
	"math"
)

// A showing is one target of the run.
type showing struct {
	what   string
	most   bool // the limit is the highest allowed value, otherwise the lowest
	limit  float64
	got    spread
	note   string
	shown  bool // the cases that it needs were run
	stated bool // reported without a limit
}

func (s showing) row() []string {
	if !s.shown {
		return []string{s.what, s.target(), "not run", "", "", ""}
	}
	rounds := ""
	if s.got.lo != s.got.hi {
		rounds = number(s.got.lo) + "–" + number(s.got.hi)
	}
	met := s.got.mid >= s.limit
	if s.most {
		met = s.got.mid <= s.limit
	}
	verdict := map[bool]string{true: "met", false: "NOT MET"}[met]
	if s.stated {
		verdict = "stated"
	}
	return []string{s.what, s.target(), number(s.got.mid), rounds, verdict, s.note}
}

// told is the showing without a limit.
func (s showing) told() showing {
	s.stated = true
	return s
}

func (s showing) target() string {
	switch {
	case s.stated:
		return ""
	case s.most:
		return "≤ " + number(s.limit)
	default:
		return "≥ " + number(s.limit)
	}
}

// Locks that leave waiting to their callers, or poll, in MongoDB and elsewhere.
var (
	mongoRivals = []string{"monglock-write", "monglock-multi", "mongolock-x", "four-step", "find-upsert"}
	redisRivals = []string{"redislock", "redsync"}
)

// showings are the targets, each with its limit. Ratios are medians over the
// rounds, each subject compared with its rival in the same round.
func (r *report) showings() table {
	b := r.b
	p50, perSecond := round.p50, round.perSecond
	all := []showing{
		b.compare("1. pair: time, over two plain findOneAndUpdate", "pair", "plain", p50, true, 1.25),
		b.compare("1. pair: time, over monglock's writeLock", "pair", "monglock-write", p50, true, 0.85),
		b.compare("1. pair: time, over monglock's multiLock", "pair", "monglock-multi", p50, true, 0.7),
		b.figure("2. rmw: commands", "rmw", round.perOp, true, 2),
		b.compare("2. rmw: time, over the optimistic version loop", "rmw", "optimistic", p50, true, 1.4),
		b.worst("2. rmw: time, over the fastest other lock in MongoDB", "rmw", mongoRivals, p50, true, 0.7),
		b.figure("3. hot64: commands per critical section", "hot64", round.perOp, true, 1.1),
		b.compare("3. hot64: throughput, over one client's plain $incs one after another", "hot64", "plain-1", perSecond, false, 0.7),
		b.compare("3. hot64: throughput, over the optimistic loop", "hot64", "optimistic", perSecond, false, 5),
		b.worst("3. hot64: throughput, over the fastest polling rival in MongoDB", "hot64", mongoRivals, perSecond, false, 10),
		b.worst("3. hot64: throughput, over the fastest polling rival in redis", "hot64", redisRivals, perSecond, false, 10),
		b.number("3. hot64: the slowest goroutine's share of the mean, worst round", b.find("hot64", "doclock"), "slowest_share_of_mean", false, 0.5),
		b.number("4. processes: the slowest process's share of its fair share, worst round", b.find("processes", "doclock"), "slowest_share_of_mean", false, 0.5),
		b.across("4. processes: throughput, over hot64", 0.5),
		b.idle("5. idle 30 s: commands of one waiter", 1, 120),
		b.idle("5. idle 30 s: commands of 100 waiters in one process", 100, 130),
		b.growth("6. growth: acquire beside 1,000 live readers, over none", crowdedSubject, crowdedSubject, 0),
		b.growth("6. growth: the same, over the plain command beside the same 1,000 entries", crowdedSubject, "plain", 1000).told(),
		b.growth("6. growth: the plain command beside 1,000 entries, over none", "plain", "plain", 0).told(),
		b.growth("6. growth: acquire beside 1,000 live readers of one process that share an entry, over none", "doclock-share", "doclock-share", 0).told(),
		b.pruned(),
		b.number("7. held: bytes per lease", b.find("held", "doclock"), "bytes_per_lease", true, 2048),
		b.number("7. held: goroutines added", b.find("held", "doclock"), "goroutines_added", true, 32),
		b.number("7. held: renewal commands, over those of single renewals", b.find("held", "doclock"), "share_of_single", true, 0.02),
		b.number("7. held: leases lost", b.find("held", "doclock"), "lost", true, 0),
	}
	for _, kase := range []string{"rmw", "hot64", "processes"} {
		for _, rival := range []string{"redislock", "redsync", "etcd"} {
			all = append(all, b.compare(fmt.Sprintf("8. %s: throughput, over %s's", kase, rival), kase, rival, perSecond, false, 0).told())
		}
	}
	all = append(all, b.claimed()...)
	all = append(all, b.networked()...)
	t := table{title: "What it must show", head: []string{"what", "target", "measured", "rounds", "", ""}}
	for _, s := range all {
		t.rows = append(t.rows, s.row())
	}
	return t
}

func (b *bench) compare(what, kase, rival string, f func(round) float64, most bool, limit float64) showing {
	s := showing{what: what, most: most, limit: limit}
	if ours, theirs := b.find(kase, "doclock"), b.find(kase, rival); ours != nil && theirs != nil {
		s.shown, s.got = true, ratio(ours, theirs, f)
	}
	return s
}

// worst compares with the rival that gives the worst result.
func (b *bench) worst(what, kase string, rivals []string, f func(round) float64, most bool, limit float64) (worst showing) {
	worst = showing{what: what, most: most, limit: limit}
	for _, rival := range rivals {
		s := b.compare(what, kase, rival, f, most, limit)
		if s.note = rival; s.shown && (!worst.shown || most == (s.got.mid > worst.got.mid)) {
			worst = s
		}
	}
	return worst
}

func (b *bench) figure(what, kase string, f func(round) float64, most bool, limit float64) showing {
	s := showing{what: what, most: most, limit: limit}
	if ours := b.find(kase, "doclock"); ours != nil {
		s.shown, s.got = true, ours.of(f)
	}
	return s
}

func (b *bench) number(what string, r *result, key string, most bool, limit float64) showing {
	s := showing{what: what, most: most, limit: limit}
	if r != nil {
		s.shown, s.got.mid = true, r.number(key)
	}
	return s
}

func (b *bench) across(what string, limit float64) showing {
	s := showing{what: what, limit: limit}
	if four, one := b.find("processes", "doclock"), b.find("hot64", "doclock"); four != nil && one != nil {
		s.shown, s.got.mid = true, over(four.of(round.perSecond).mid, one.of(round.perSecond).mid)
	}
	return s
}

// idle is counted over 30 s. A quick run counts for a shorter time and
// multiplies, which overstates: most commands are sent early.
func (b *bench) idle(what string, waiters int, limit float64) showing {
	s := showing{what: what, most: true, limit: limit}
	if r := b.find("idle", "doclock", extra{"waiters", waiters}); r != nil {
		s.shown, s.got.mid = true, math.Round(r.number("commands")*30/r.number("window_s"))
		if r.number("window_s") != 30 {
			s.note = fmt.Sprintf("extrapolated from %v s", r.number("window_s"))
		}
	}
	return s
}

const crowdedSubject = "doclock-read-preferring"

// growth compares a command beside 1,000 readers with the same subject's, or
// another's, beside this many readers.
func (b *bench) growth(what, subject, rival string, readers int) showing {
	s := showing{what: what, most: true, limit: 3}
	many, beside := b.find("growth", subject, extra{"live_entries", 1000}), b.find("growth", rival, extra{"live_entries", readers}, extra{"document_kb", 1})
	if many != nil && beside != nil {
		s.shown, s.got = true, ratio(many, beside, round.p50)
	}
	return s
}

func (b *bench) pruned() showing {
	s := showing{what: "6. growth: bytes of the document after 1,000 readers expired, over one that had none", most: true, limit: 1.5}
	many, none := b.find("growth", crowdedSubject, extra{"live_entries", 1000}), b.find("growth", crowdedSubject, extra{"live_entries", 0})
	if many != nil && none != nil {
		s.shown, s.got.mid = true, over(many.number("bytes_after_expiry"), none.number("bytes_after_expiry"))
		s.note = fmt.Sprintf("%v bytes, from %v", many.number("bytes_after_expiry"), many.number("bytes_then"))
	}
	return s
}
