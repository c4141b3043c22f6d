package admin_test

import (
	"context"
	"flag"
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/doclock/doclock/admin"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var documents = flag.Int("documents", 6_000, "locked documents in the tests of scale")

// crowded has as many locked documents as the flag says; half of the entries
// have expired.
func crowded(p *place, n int) {
	p.Helper()
	for i := 0; i < n; {
		var docs []any
		for ; i < n && len(docs) < 1000; i++ {
			expires := time.Minute
			if i%2 == 0 {
				expires = -time.Minute
			}
			e := bson.D{{Key: "id", Value: binary(uuid.New())}, {Key: "owner", Value: fmt.Sprintf("web-%d/1/api", i%100)}, {Key: "seq", Value: int64(1)},
				{Key: "fence", Value: int64(2)}, {Key: "since", Value: at(-time.Hour)}, {Key: "expires", Value: at(expires)}}
			docs = append(docs, bson.D{idIs(i), {Key: "text", Value: "what the application has in its document"}, lock(9, tag("write", e))})
		}
		if _, err := p.Hand.InsertMany(context.Background(), docs); err != nil {
			p.Fatal(err)
		}
	}
}

// live is the memory in use.
func live() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// Memory doesn't grow with the collection: neither Entries nor Sweep holds more
// than a few batches at a time. The test runs alone: it isn't parallel.
func TestConstantMemory(t *testing.T) {
	const bound = 3 << 19 // some batches of 500 documents; all of them at once are twice as much
	p := alone(t)
	crowded(p, *documents)
	before, most, n := live(), uint64(0), 0
	for _, err := range admin.Entries(t.Context(), p.coll, admin.Query{}, p.clocked()) {
		if err != nil {
			t.Fatal(err)
		}
		if n++; n%1000 == 0 {
			most = max(most, live())
		}
	}
	if n != *documents || most > before+bound {
		t.Errorf("%d entries; memory went from %d kB to %d kB", n, before>>10, most>>10)
	}
	if answers := p.sent.Count(); answers < *documents/500 {
		t.Errorf("%d documents came in %d answers", *documents, answers)
	}
	t.Logf("Entries: %d entries, at most %d kB more than before", n, (int64(most)-int64(before))>>10)

	before, most = live(), 0
	progress := admin.Progress(func(c admin.Count) {
		if c.Removed%500 == 0 {
			most = max(most, live())
		}
	})
	count, err := admin.Sweep(t.Context(), p.Hand, p.clocked(), progress)
	if err != nil || count.Removed != int64(*documents+1)/2 || most > before+bound {
		t.Errorf("%+v, %v; memory went from %d kB to %d kB", count, err, before>>10, most>>10)
	}
	t.Logf("Sweep: %d entries, at most %d kB more than before", count.Removed, (int64(most)-int64(before))>>10)
}

// The time to the first entry and to the last, beside a plain scan of the same
// fields, and what a Sweep of one half takes:
//
//	go test ./admin -run '^$' -bench Scale -benchtime 5x -documents 100000
func BenchmarkScale(b *testing.B) {
	p := alone(b)
	crowded(p, *documents)
	ctx := context.Background()
	plain := func() (first time.Duration, n int) {
		begun := time.Now()
		cursor, err := p.Hand.Find(ctx, bson.D{}, options.Find().SetProjection(bson.D{{Key: "lock", Value: 1}}).SetBatchSize(500))
		if err != nil {
			b.Fatal(err)
		}
		defer cursor.Close(ctx)
		for ; cursor.Next(ctx); n++ {
			if n == 0 {
				first = time.Since(begun)
			}
		}
		return first, n
	}
	entries := func(q admin.Query) (first time.Duration, n int) {
		begun := time.Now()
		for _, err := range admin.Entries(ctx, p.Hand, q, p.clocked()) {
			if err != nil {
				b.Fatal(err)
			}
			if n++; n == 1 {
				first = time.Since(begun)
			}
		}
		return first, n
	}
	for _, c := range []struct {
		name string
		scan func() (time.Duration, int)
	}{
		{"plain", plain},
		{"all", func() (time.Duration, int) { return entries(admin.Query{}) }},
		{"expired", func() (time.Duration, int) { return entries(admin.Query{Only: admin.Expired}) }},
		{"owner", func() (time.Duration, int) { return entries(admin.Query{Owner: "web-7/1/api"}) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			var first time.Duration
			var found int
			for b.Loop() {
				soon, n := c.scan()
				first, found = first+soon, n
			}
			b.ReportMetric(float64(first.Milliseconds())/float64(b.N), "first-ms")
			b.ReportMetric(float64(found), "entries")
		})
	}
	b.Run("sweep", func(b *testing.B) { // of one half; once, however often it is asked
		begun := time.Now()
		count, err := admin.Sweep(ctx, p.Hand, p.clocked())
		if err != nil {
			b.Fatal(err)
		}
		if count.Removed > 0 {
			b.Logf("Sweep removed %d entries in %v", count.Removed, time.Since(begun))
		}
		for b.Loop() {
			if _, err := admin.Sweep(ctx, p.Hand, p.clocked()); err != nil {
				b.Fatal(err)
			}
		}
	})
}
