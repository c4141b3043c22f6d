package main

import (
	"bytes"
	"math"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The longest durations have a text, too.
func TestShort(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{
		math.MinInt64: "-106751d23h", math.MaxInt64: "106751d23h", -time.Second: "-1s", 0: "0s", 3*time.Hour + 5*time.Minute: "3h05m",
	} {
		if got := short(d); got != want {
			t.Errorf("%d is %s, want %s", d, got, want)
		}
	}
}

// Any file can be run.
func TestDefaultOwner(t *testing.T) {
	t.Parallel()
	for _, command := range []string{"w\xff", strings.Repeat("ä", 250)} {
		if owner := defaultOwner(command); strings.ToValidUTF8(owner, "") != owner || len(owner) > 256 {
			t.Errorf("%q: the owner is %q", command, owner)
		}
	}
}

// The default grace is a fifth of the TTL, or of a shorter --at-most.
func TestDefaultGrace(t *testing.T) {
	t.Parallel()
	for want, h := range map[time.Duration]held{
		6 * time.Second:  {ttl: 30 * time.Second},
		2 * time.Second:  {ttl: 30 * time.Second, limited: true, most: 10 * time.Second},
		12 * time.Second: {ttl: time.Minute, limited: true, most: time.Hour},
	} {
		if err := h.check(target{}); err != nil || h.grace != want {
			t.Errorf("%+v: %v (%v), want %v", h, h.grace, err, want)
		}
	}
}

// check fails if a tolerance of 500 ms is too small for the clocks.
func TestCheckOfClocks(t *testing.T) {
	t.Parallel()
	if err := clockTrouble(doclock.ServerInfo{ClockSkew: time.Second}); err == nil || !strings.Contains(err.Error(), "differ by 1s") {
		t.Errorf("a second apart: %v", err)
	}
	if err := clockTrouble(doclock.ServerInfo{ClockSkew: 100 * time.Millisecond}); err != nil {
		t.Errorf("100 ms apart: %v", err)
	}
}

// heap counts lines, and takes the size of the heap after the first thousand and later
// ones.
type heap struct {
	lines       int
	first, most uint64
}

func (h *heap) Write(text []byte) (int, error) {
	before := h.lines
	h.lines += bytes.Count(text, []byte("\n"))
	if h.lines/5000 > before/5000 || h.first == 0 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		if h.first == 0 {
			h.first = m.HeapAlloc
		}
		h.most = max(h.most, m.HeapAlloc)
	}
	return len(text), nil
}

// ls needs the same memory for many entries as for a few.
func TestLsOfMany(t *testing.T) {
	coll := mongotest.Database(t).Collection("locks")
	const documents, batch = 20_000, 1000
	for i := 0; i < documents; {
		var all []any
		for range batch {
			id, now := uuid.New(), time.Now()
			all = append(all, bson.M{"_id": i, "lock": bson.M{"fence": int64(1), "tags": bson.M{"write": bson.A{bson.M{
				"id": bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}, "owner": strings.Repeat("web-3/4711/api ", 10),
				"seq": int64(1), "since": now, "expires": now.Add(time.Hour), "fence": int64(1),
			}}}}})
			i++
		}
		if _, err := coll.InsertMany(t.Context(), all); err != nil {
			t.Fatal(err)
		}
	}
	for _, asJSON := range []bool{false, true} {
		var out heap
		c := &cli{out: &out, field: "lock", timeout: mongotest.Patience, json: asJSON, uri: mongotest.URI(t), collection: coll.Database().Name() + ".locks"}
		if err := c.list(fixture.Bounded(t), &choice{}); err != nil {
			t.Fatal(err)
		}
		// All entries together take 8 MB at least.
		if more := int64(out.most) - int64(out.first); out.lines < documents || more > 3<<20 {
			t.Errorf("JSON %v: %d lines, %d kB more", asJSON, out.lines, more>>10)
		}
	}
}
