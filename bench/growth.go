package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// A crowder has n readers hold the document of a key for a TTL, or writes the
// entries that they would leave.
type crowder interface {
	sharer
	crowd(ctx context.Context, key string, n int) error
}

// runGrowth acquires a reader's lock beside 0 to 1,000 live ones, and on
// documents of 1 to 200 KB, in turn with a plain command on the same document.
// Then it lets them expire, acquires once more, and measures the document.
func runGrowth(ctx context.Context, b *bench) error {
	life := pick(b, 60*time.Second, 15*time.Second) // of the other entries
	rounds, block := pick(b, 10, 3), pick(b, 12, 5)
	names := []string{"plain", crowdedSubject, "doclock-share", "monglock-multi", "mongolock-s"}
	all, closeAll, err := b.openAll(ctx, life, names...)
	if err != nil {
		return err
	}
	defer closeAll()

	begun := time.Now()
	type ground struct {
		s      named
		key    string
		result *result
	}
	var grounds []ground
	var crowded []*result
	place := func(entries, kb int, crowd string, names []named) error {
		key := fmt.Sprintf("growth %d %d %s", entries, kb, crowd)
		if err := b.servers.document(ctx, key, kb*1000); err != nil {
			return err
		}
		for _, s := range names {
			r := b.newResult("growth", s.name)
			r.add("live_entries", entries)
			r.add("document_kb", kb)
			if s.name == crowd {
				if err := s.subject.(crowder).crowd(ctx, key, entries); err != nil {
					return err
				}
				if s.name == crowdedSubject {
					size, err := b.size(ctx, key)
					if err != nil {
						return err
					}
					r.add("bytes_then", size)
					crowded = append(crowded, r)
				}
			}
			grounds = append(grounds, ground{s, key, r})
		}
		return nil
	}
	for _, entries := range []int{0, 10, 100, 1000} {
		for i, s := range all[1:] {
			beside := []named{s}
			if i == 0 {
				beside = []named{s, all[0]} // plain: on doclock's document, when it is filled
			}
			if err := place(entries, 1, s.name, beside); err != nil {
				return err
			}
		}
	}
	for _, kb := range []int{20, 200} {
		if err := place(0, kb, "", all[:2]); err != nil {
			return err
		}
	}
	for n := -1; n < rounds; n++ {
		if time.Since(begun) > life*3/4 && n > 0 {
			b.say("  this machine is slow: %d of %d rounds before the entries expire", n, rounds)
			break
		}
		for _, g := range shuffled(grounds) {
			if time.Since(begun) > life-time.Second {
				return fmt.Errorf("the entries expired in round %d: this machine is too slow for the measurement", n)
			}
			r, err := acquires(ctx, g.s, g.key, block)
			if err != nil {
				return fmt.Errorf("%s: %w", g.s.name, err)
			}
			if n >= 0 {
				g.result.rounds = append(g.result.rounds, r)
			}
		}
	}
	b.say("  waiting for the entries to expire")
	select {
	case <-time.After(time.Until(begun.Add(life + 2*time.Second))):
	case <-ctx.Done():
		return ctx.Err()
	}
	for _, r := range crowded {
		key := fmt.Sprintf("growth %v 1 %s", r.number("live_entries"), r.subject)
		if _, err := acquires(ctx, all[1], key, 1); err != nil {
			return err
		}
		size, err := b.size(ctx, key)
		if err != nil {
			return err
		}
		r.add("bytes_after_expiry", size)
	}
	return nil
}

// acquires measures the acquires alone; releases are neither timed nor counted.
func acquires(ctx context.Context, s named, key string, n int) (r round, err error) {
	for range n {
		before, start := s.sent().total(), time.Now()
		release := unlock(func(context.Context) error { return nil })
		if shared, ok := s.subject.(sharer); ok {
			release, err = shared.lockShared(ctx, key)
		} else {
			err = s.subject.(incrementer).increment(ctx, key)
		}
		if err != nil {
			return r, err
		}
		took := time.Since(start)
		r.latencies, r.took = append(r.latencies, took), r.took+took
		r.commands += s.sent().total() - before
		if err := release(ctx); err != nil {
			return r, err
		}
	}
	return r, nil
}

// size is a document's stored size, in bytes.
func (b *bench) size(ctx context.Context, key string) (int, error) {
	client, err := b.servers.connect(&counter{})
	if err != nil {
		return 0, err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	raw, err := client.Database(b.servers.Database).Collection(documents).FindOne(ctx, bson.M{"_id": key}).Raw()
	return len(raw), err
}
