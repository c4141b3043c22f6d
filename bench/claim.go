package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// claimColumns are the columns of the table.
var claimColumns = []string{"workers", "claimed_twice", "left", "found_none", "idle_share", "idle_max_ms", "out_of_order_p50", "out_of_order_max"}

// runClaim has the workers of four processes empty a queue: each claims the
// pending document of the highest priority, and finishes it at once. The
// commands of a claim are the look-ups and the tries; the final write is one
// more, and not counted. The latency is the time from a worker's wish to its
// document, in which it is idle.
func runClaim(ctx context.Context, b *bench) error {
	const processes = 4
	kase, rounds, documents, limit := b.now.name, pick(b, 3, 1), pick(b, 2000, 300), pick(b, 8*time.Second, 3*time.Second)
	if b.now.over != nil {
		rounds = pick(b, 2, 1)
	}
	subjects := []struct {
		name, subject string
		workers       int
	}{{"doclock", "doclock-claim", 32}, {"find-and-modify", "find-and-modify", 32}, {"find-try", "find-try", 32}, {"find-try-8", "find-try", 8}}
	client, err := b.servers.connect(&counter{})
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	queue := client.Database(b.servers.Database).Collection(jobs)
	tallies := map[string][]tally{}
	for _, s := range subjects {
		b.newResult(kase, s.name).add("workers", s.workers)
	}
	for turn := range rounds {
		b.say("  round %d of %d", turn+1, rounds)
		for _, s := range shuffled(subjects) {
			if err := fill(ctx, queue, documents); err != nil {
				return err
			}
			e := errand{Role: "claimant", Subject: s.subject, Goroutines: s.workers / processes, Window: limit, TTL: ttl}
			one, err := b.empty(ctx, e, processes, documents)
			if err != nil {
				return fmt.Errorf("%s: %w", s.name, err)
			}
			finished, err := queue.CountDocuments(ctx, bson.M{"state": "done"})
			if err != nil {
				return err
			}
			r := b.find(kase, s.name)
			r.lost += documents - one.left - int(finished)
			if !rival(s.name) && (r.lost > 0 || one.twice > 0) {
				return fmt.Errorf("%s: %d documents were claimed twice, %d final writes were lost", s.name, one.twice, r.lost)
			}
			r.rounds = append(r.rounds, one.round)
			tallies[s.name] = append(tallies[s.name], one)
		}
	}
	for _, s := range subjects {
		b.find(kase, s.name).addTallies(tallies[s.name])
	}
	return nil
}

// fill makes a queue of documents with different priorities, in any order.
func fill(ctx context.Context, queue *mongo.Collection, n int) error {
	if err := queue.Drop(ctx); err != nil {
		return err
	}
	var all []any
	for i, priority := range rand.Perm(n) {
		doc := blank("", small)
		doc["_id"], doc["state"], doc["priority"] = i, "pending", priority
		all = append(all, doc)
	}
	if _, err := queue.InsertMany(ctx, all); err != nil {
		return err
	}
	_, err := queue.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "state", Value: 1}, {Key: "priority", Value: -1}}})
	return err
}

// empty starts n processes of workers together, and counts their claims.
func (b *bench) empty(ctx context.Context, e errand, n, documents int) (tally, error) {
	var all claims
	err := b.together(e, n, func(line string) error {
		var one claims
		if err := json.Unmarshal([]byte(line), &one); err != nil {
			return err
		}
		all.add(one)
		return nil
	})
	if err != nil {
		return tally{}, err
	}
	return all.count(n*e.Goroutines, documents), ctx.Err()
}
