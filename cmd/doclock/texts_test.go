package main

import (
	"bytes"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/internal/mongotest"
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

// A run that was told that none is free says so, also if the server has gone since, and what is in the way.
func TestNoneWasFree(t *testing.T) {
	t.Parallel()
	for want, err := range map[string]error{
		errNoneFree.Error():                        fmt.Errorf("%w: none is free; server selection error", doclock.ErrNotFound),
		`("write", expired, but a transaction of `: &doclock.ConflictError{Holders: []doclock.Holder{{Tag: "write"}}},
	} {
		end, _ := (&cli{}).notAcquired(err, target{text: "{}"}, held{skip: true}).(*ending)
		if end.code != exitConflict || !strings.Contains(end.Error(), want) {
			t.Errorf("it ended with %v", end)
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

// A table keeps back no more than a thousand rows, so ls needs the same memory for many entries as for a few: the package
// admin keeps none.
func TestTableOfMany(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	rows := newTable(&out)
	for range 999 {
		must(t, rows.add(admin.Entry{}))
	}
	before := out.Len()
	if must(t, rows.add(admin.Entry{})); before > 0 || out.Len() == 0 {
		t.Errorf("after 999 rows it has written %d bytes, after 1000 %d", before, out.Len())
	}
}

func must(tb testing.TB, err error) {
	tb.Helper()
	if err != nil {
		tb.Fatal(err)
	}
}

// errOf is the error of a call that also returns something else.
func errOf[T any](_ T, err error) error { return err }

// check shows no difference of clocks that it has not measured.
func TestCheckOfAnUnsupportedServerShowsNoSkew(t *testing.T) {
	var out bytes.Buffer
	(&cli{out: &out}).checkText(doclock.ServerInfo{Kind: doclock.ReplicaSet}, false)
	if strings.Contains(out.String(), "skew   0s") {
		t.Errorf("it said %q", out.String())
	}
}

// index says that there was no collection, of the default one, too.
func TestIndexSaysThatItMadeTheDefaultCollection(t *testing.T) {
	server, err := mongotest.Open(t.Context(), "")
	must(t, err)
	defer server.Close()
	t.Setenv("MONGODB_URI", server.URI())
	t.Setenv("DOCLOCK_URI", "")
	t.Setenv("DOCLOCK_COLLECTION", "")
	var out, said bytes.Buffer
	c := &cli{out: &out, err: &said, field: "lock", timeout: patience}
	must(t, c.index(t.Context(), []string{"write"}))
	if !strings.Contains(said.String(), "there was no such collection") {
		t.Errorf("it made %q, and said %q", out.String(), said.String())
	}
}
