package model

// The worlds of the searches: rules, a client for each letter of the tags, and what is more in them.

// base is the world of the exhaustive searches. Its numbers are small, so that
// every boundary is reached.
func base(rules Rules, tags string, more ...func(*config)) config {
	cfg := config{
		ruleSets: []Rules{rules},
		ttl:      2, waitTTL: 1, tolerance: 1, tick: 1, patience: 3,
		limits: limits{steps: 1}, writes: 1, rounds: 1, handoffs: true,
	}
	for _, tag := range tags {
		cfg.tags = append(cfg.tags, Tag(tag))
	}
	return with(cfg, more...)
}

// plain is a world whose clients only acquire, confirm, renew and release.
func plain(rules Rules, tags string, more ...func(*config)) config {
	cfg := base(rules, tags)
	cfg.writes, cfg.steps, cfg.handoffs = 0, 0, false
	return with(cfg, more...)
}

func with(cfg config, more ...func(*config)) config {
	for _, add := range more {
		add(&cfg)
	}
	return cfg
}

func each(worlds []config, more ...func(*config)) (out []config) {
	for _, cfg := range worlds {
		out = append(out, with(cfg, more...))
	}
	return out
}

// What there is more of: clients write, hand over, prove their leases, try-acquire, claim alone and in batches, touch tokens, demand a state of
// the document, and have two leases each; servers' clocks step.
func saving(cfg *config)   { cfg.writes = 1 }
func handing(cfg *config)  { cfg.handoffs = true }
func stepping(cfg *config) { cfg.steps = 1 }
func checking(cfg *config) { cfg.checks = true }
func trying(cfg *config)   { cfg.tries = true }
func claiming(cfg *config) { cfg.claims = true }
func batching(cfg *config) { cfg.batches = true }
func beating(cfg *config)  { cfg.beats = 1 }
func twice(cfg *config)    { cfg.rounds = 2 }
func stating(cfg *config)  { cfg.state = true }

// brief has the document remember one ended lease.
func brief(cfg *config) { cfg.protocol.Done = 1 }

// breaking has an operator break one held entry.
func breaking(cfg *config) { cfg.breaks = 1 }

// deleting lets them delete the document under their leases.
func deleting(cfg *config) { cfg.deletes = true }

// taking lets clients take over what others have.
func taking(cfg *config) { cfg.takes = true }

// converting lets a conversion to b.
func converting(cfg *config) { cfg.lower, cfg.lowers = map[Tag]Tag{"a": "b"}, 2 }

// set has a replica set of two members (those that only vote are left out), of which the other one is elected at some
// time.
func set(cfg *config) { cfg.members, cfg.elections = 2, 1 }

// routed gives each client a router, whose clock counts.
func routed(cfg *config) { cfg.routers = true }

// clocks are the first offsets of the servers' clocks.
func clocks(offsets ...int64) func(*config) { return func(cfg *config) { cfg.clocks = offsets } }

// faulty has this many attempts lost, delayed, doubled or not answered.
func faulty(n int) func(*config) { return func(cfg *config) { cfg.faults = n } }

// keeping has the acquires keep others out for some time.
func keeping(time int64) func(*config) { return func(cfg *config) { cfg.hold = time } }

// tokens lets clients detach, and this many, the last ones, only resume.
func tokens(users int) func(*config) {
	return func(cfg *config) { cfg.tokens, cfg.users = true, users }
}

func programs(rules ...Rules) func(*config) { return func(cfg *config) { cfg.ruleSets = rules } }
