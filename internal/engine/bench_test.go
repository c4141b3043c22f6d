package engine

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// The benchmarks compare a command of ours with a plain findOneAndUpdate with
// $inc. The two run in turn, so that the machine's load affects both. "plains"
// is the ratio of the medians.

// bench is a document, and an engine on the server's own clock.
type bench struct {
	*testing.B
	*Engine
	docs   *mongo.Collection
	filter Filter
}

func newBench(b *testing.B, rules relations.Rules, size, entries int) *bench {
	docs := mongotest.Database(b).Collection("documents")
	e, err := New(docs, rules, Config{Terms: Terms{TTL: time.Hour, Owner: "bench/4711/0123456789"}, WaitTTL: time.Hour, Tolerance: extra, Field: DefaultField})
	if err != nil {
		b.Fatal(err)
	}
	live := bson.A{}
	for i := range entries {
		live = append(live, row{id: uuid.New(), seq: int64(i + 1), fence: int64(i + 1), expires: 10_000 * time.Hour}.document())
	}
	doc := bson.M{"_id": 1, "a": 1, "pad": strings.Repeat("x", size), "lock": bson.M{"fence": int64(entries), "tags": bson.M{"read": live}}}
	if _, err := docs.InsertOne(b.Context(), doc); err != nil {
		b.Fatal(err)
	}
	f, err := e.ParseFilter(bson.M{"_id": 1})
	if err != nil {
		b.Fatal(err)
	}
	return &bench{b, e, docs, f}
}

// plain is the driver's command that ours are compared with.
func (b *bench) plain(ctx context.Context) {
	projected := b.docs.FindOneAndUpdate(ctx, bson.M{"_id": 1}, bson.M{"$inc": bson.M{"a": 1}}, options.FindOneAndUpdate().SetProjection(bson.D{{Key: "_id", Value: 1}}))
	if err := projected.Err(); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) acquire(ctx context.Context, tag string, want Outcome) Grant {
	id := uuid.New()
	got, err := b.Engine.Acquire(ctx, b.filter, Request{Tag: tag, ID: id})
	b.expect(got.Outcome, err, want)
	return b.Grant(got.Image, Request{Tag: tag, ID: id})
}

func (b *bench) expect(got Outcome, err error, want Outcome) {
	if err != nil || got != want {
		b.Helper()
		b.Fatal(got, err)
	}
}

// against runs op in turn with plain commands.
func (b *bench) against(op func(ctx context.Context)) {
	ctx := b.Context()
	for range 3 {
		b.plain(ctx)
		op(ctx)
	}
	var plains, ops []time.Duration
	for b.Loop() {
		start := time.Now()
		b.plain(ctx)
		between := time.Now()
		op(ctx)
		plains, ops = append(plains, between.Sub(start)), append(ops, time.Since(between))
	}
	b.ReportMetric(float64(median(ops))/float64(median(plains)), "plains")
	b.ReportMetric(float64(median(plains).Microseconds()), "µs/plain")
	b.ReportMetric(float64(median(ops).Microseconds()), "µs/op")
	b.ReportMetric(0, "ns/op")
}

func median(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[len(values)/2]
}

func sizes(b *testing.B, rules relations.Rules, body func(b *bench)) {
	for _, size := range []int{1000, 20_000, 200_000} {
		b.Run(fmt.Sprintf("%dKB", size/1000), func(b *testing.B) { body(newBench(b, rules, size, 0)) })
	}
}

// BenchmarkPairInCrowd is an acquire and a release beside live entries that the tag ignores. The
// commands have to read through them all the same.
func BenchmarkPairInCrowd(b *testing.B) {
	for _, n := range []int{0, 10, 100, 1000} {
		b.Run(fmt.Sprintf("%dentries", n), func(b *testing.B) {
			crowd := newBench(b, relations.Fair(), 1000, n)
			crowd.against(func(ctx context.Context) {
				got, err := crowd.Release(ctx, crowd.acquire(ctx, "read", Granted))
				crowd.expect(got.Outcome, err, Released)
			})
		})
	}
}

func BenchmarkAcquire(b *testing.B) { // and its repeats, which change little
	sizes(b, relations.Exclusive(), func(b *bench) {
		id := uuid.New()
		b.against(func(ctx context.Context) {
			got, err := b.Engine.Acquire(ctx, b.filter, Request{Tag: "write", ID: id})
			b.expect(got.Outcome, err, Granted)
		})
	})
}

// BenchmarkWriteAndHandOff is a critical section whose successor waits in the
// same process: one command, which also returns the document to the successor.
func BenchmarkWriteAndHandOff(b *testing.B) {
	sizes(b, relations.Exclusive(), func(b *bench) {
		u, err := b.ParseUpdate(bson.M{"$inc": bson.M{"a": 1}})
		if err != nil {
			b.Fatal(err)
		}
		g := b.acquire(b.Context(), "write", Granted)
		b.against(func(ctx context.Context) {
			s := Successor{Request: Request{Tag: "write", ID: uuid.New(), Document: true}}
			got, err := b.Engine.WriteAndHandOff(ctx, g, u, s)
			b.expect(got.Outcome, err, Granted)
			g = b.Grant(got.Image, s.Request)
		})
	})
}
