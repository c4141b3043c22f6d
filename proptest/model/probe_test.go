package model

import (
	"os"
	"strconv"
	"testing"
	"time"
)

func TestProbe(t *testing.T) {
	f, _ := strconv.Atoi(os.Getenv("F"))
	d, _ := strconv.Atoi(os.Getenv("D"))
	ho := os.Getenv("H") != ""
	tables := twoTagTables()
	t.Log(len(tables))
	for _, i := range []int{0, 50, 150, 250, 310} {
		for _, crew := range crews(tagNames[:2], 3) {
			cfg := config{tables: []Table{tables[i]}, tags: crew, ttl: 2, waitTTL: 1, tolerance: 1, tick: 1, steps: 1, faults: f, writes: 1, rounds: 1, handoffs: ho}
			st := time.Now()
			r := search{cfg: cfg, depth: d, maxStates: 400000}.run()
			t.Log(tables[i], crew, r.states, r.depth, r.complete, time.Since(st))
			if r.broken != nil {
				t.Fatal(r)
			}
		}
	}
}
