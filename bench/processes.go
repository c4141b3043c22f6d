package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"
)

// runProcesses has four processes compete for one document.
func runProcesses(ctx context.Context, b *bench) error {
	const processes, goroutines = 4, 16
	rounds, length := pick(b, 5, 2), pick(b, 2*time.Second, 700*time.Millisecond)
	names := []string{"plain", "optimistic", "doclock", "doclock-fair", "monglock-write", "four-step", "redislock", "redsync", "etcd"}
	names = slices.DeleteFunc(names, func(name string) bool { return b.servers.Absent[needs[name]] != "" })
	for _, name := range names {
		r := b.newResult("processes", name)
		r.add("processes", processes)
		r.add("goroutines_each", goroutines)
	}
	for turn := range rounds {
		b.say("  round %d of %d", turn+1, rounds)
		for _, name := range shuffled(names) {
			e := errand{Role: "competitor", Subject: name, Key: fmt.Sprintf("processes %s %d", name, turn), Goroutines: goroutines, Window: length, TTL: ttl}
			if err := b.race(ctx, b.find("processes", name), e, processes); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	b.fairness("processes")
	return nil
}

// race starts n processes, starts them together, and adds up their results.
func (b *bench) race(ctx context.Context, to *result, e errand, n int) error {
	r, completed := round{took: e.Window}, 0
	if err := b.servers.document(ctx, e.Key, small); err != nil {
		return err
	}
	err := b.together(e, n, func(line string) error {
		var got competed
		if err := json.Unmarshal([]byte(line), &got); err != nil {
			return err
		}
		r.latencies = append(r.latencies, got.Latencies...)
		r.commands += got.Commands
		r.counts = append(r.counts, len(got.Latencies))
		completed += got.Completed
		r.failed += got.Failed
		return nil
	})
	if err != nil {
		return err
	}
	to.rounds = append(to.rounds, r)
	return b.audit(ctx, to, e.Key, completed)
}

// together has n processes do an errand at the same time, each from the moment
// when all are ready, and passes their answers on.
func (b *bench) together(e errand, n int, answer func(line string) error) (err error) {
	var all []*process
	defer func() {
		for _, p := range all {
			if ended := p.end(); err == nil {
				err = ended
			}
		}
	}()
	for range n {
		p, err := b.spawn(e)
		if err != nil {
			return err
		}
		all = append(all, p)
	}
	for _, p := range all {
		if _, err := p.hear(); err != nil { // ready
			return err
		}
	}
	for _, p := range all {
		if err := p.tell("go"); err != nil {
			return err
		}
	}
	for _, p := range all {
		line, err := p.hear()
		if err != nil {
			return err
		}
		if err := answer(line); err != nil {
			return err
		}
	}
	return nil
}
