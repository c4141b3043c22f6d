package main

import "fmt"

// claimed are the targets of claiming, without a network.
func (b *bench) claimed() []showing {
	ours := b.find("claim", "doclock")
	all := []showing{
		b.figure("9. claim: commands per claim, without the final write", "claim", round.perOp, true, 1.2),
		b.number("9. claim: documents that were claimed twice", ours, "claimed_twice", true, 0),
		b.number("9. claim: documents that were never claimed", ours, "left", true, 0),
		b.compare("9. claim: throughput, over 8 workers that find and try", "claim", "find-try-8", round.perSecond, false, 5),
		b.number("9. claim: share of the workers' time without a document", ours, "idle_share", true, 0).told(),
		b.number("9. claim: documents of higher priority that were claimed later, median", ours, "out_of_order_p50", true, 0).told(),
		b.number("9. claim: the same, highest", ours, "out_of_order_max", true, 0).told(),
	}
	return append(all, b.claimRatios("9. claim", "claim")...)
}

// claimRatios compare with the rivals of as many workers.
func (b *bench) claimRatios(number, kase string) []showing {
	return []showing{
		b.compare(number+": throughput, over 32 workers that find and try", kase, "find-try", round.perSecond, false, 0).told(),
		b.compare(number+": throughput, over a plain findAndModify (not safe)", kase, "find-and-modify", round.perSecond, false, 0).told(),
	}
}

// networked are the targets over each latency, after what the network itself
// adds.
func (b *bench) networked() (all []showing) {
	if len(b.latencies) == 0 {
		return nil
	}
	all = []showing{
		b.added("10. network of 0 ms: milliseconds that it adds to a round trip to MongoDB", "mongodb", "0s", "added_ms"),
		b.added("10. network of 0 ms: throughput of 64 readers, over no network", throng, "0s", "throughput_over_none"),
	}
	for _, d := range b.latencies {
		number := fmt.Sprintf("10. network of %v", d)
		pair, rmw, hot, claim := onNetwork("pair", d), onNetwork("rmw", d), onNetwork("hot64", d), onNetwork("claim", d)
		all = append(all,
			b.added(number+": milliseconds that it adds to a round trip to MongoDB", "mongodb", d.String(), "added_ms"),
			b.compare(number+": pair: time, over two plain findOneAndUpdate", pair, "plain", round.p50, true, 1.05),
			b.compare(number+": rmw: time, over the optimistic version loop", rmw, "optimistic", round.p50, true, 1.05),
			b.compare(number+": hot64: throughput, over the optimistic loop", hot, "optimistic", round.perSecond, false, 8),
			b.compare(number+": hot64: throughput, over redislock's", hot, "redislock", round.perSecond, false, 1.8),
			b.compare(number+": claim: throughput, over 8 workers that find and try", claim, "find-try-8", round.perSecond, false, 0).told(),
		)
		all = append(all, b.claimRatios(number+": claim", claim)...)
	}
	return all
}

// added is an extra value of the case "network", with its rounds.
func (b *bench) added(what, result, network, key string) showing {
	s := showing{what: what, stated: true}
	if r := b.find("network", result, extra{"network", network}); r != nil {
		s.shown, s.got.mid = true, r.number(key)
		for _, e := range r.extra {
			if rounds, ok := e.value.([2]float64); ok && e.key == key+ofRounds {
				s.got.lo, s.got.hi = rounds[0], rounds[1]
			}
		}
	}
	return s
}
