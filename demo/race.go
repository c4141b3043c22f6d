package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock/internal/child"
)

// A result is what one run did, and what a full scan found after it.
type result struct {
	scan
	counts map[string]int
	took   time.Duration
}

// race empties the address book, runs adders and deleters in several processes, and then scans the address book. It prints the
// counts once a second.
func (d *demo) race(ctx context.Context, locks bool) (r result, err error) {
	plain := openPlain(d.database)
	if err := plain.reset(ctx); err != nil {
		return r, err
	}
	latest := make([]map[string]int, d.processes)
	printed := time.Duration(0)
	j := job{URI: d.uri, Database: d.database.Name(), Locks: locks, Work: d.work, Duration: d.duration}
	err = child.Together(ctx, "race", slices.Repeat([]job{j}, d.processes), func(i int, line string) error {
		var m message
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			return err
		}
		latest[i], r.took, r.counts = m.Counts, max(r.took, m.Elapsed), map[string]int{}
		for _, counts := range latest {
			for what, n := range counts {
				r.counts[what] += n
			}
		}
		if r.took >= printed+time.Second {
			printed = r.took
			_, _ = fmt.Fprintf(d.progress, "   %4.1f s: %d contacts added, %d categories deleted, %d conflicts\n",
				r.took.Seconds(), r.counts[added], r.counts[deleted], r.counts[conflicts])
		}
		return nil
	})
	if err != nil {
		return r, err
	}
	if r.scan, err = plain.scan(ctx); err == nil {
		d.print("   %d operations in %.1f s. A full scan finds %v.", r.counts[operations], r.took.Seconds(), r.scan)
	}
	return r, err
}
