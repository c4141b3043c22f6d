package faults

import (
	"context"
	"fmt"
	"time"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// standing is an entry of the document.
type standing struct {
	ID      bson.Binary
	Owner   string
	Seq     int64
	Fence   int64
	Expires time.Time
	tag     string
}

// entries are the live ones.
func (s *queueing) entries(ctx context.Context) (all []standing, err error) {
	var doc struct {
		Lock struct{ Tags map[string][]standing }
	}
	if err := s.other.FindOne(ctx, bson.M{"_id": s.id}).Decode(&doc); err != nil {
		return nil, err
	}
	now := s.now()
	for tag, entries := range doc.Lock.Tags {
		for _, e := range entries {
			if e.tag = tag; e.Expires.After(now) {
				all = append(all, e)
			}
		}
	}
	return all, nil
}

// free is a tag that a waiter waits for and could get, or "".
func (s *queueing) free(entries []standing) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	for tag, n := range s.waiting {
		if n == 0 {
			continue
		}
		var own *standing
		for _, e := range entries {
			if e.Owner == here && e.tag == tag && e.Fence == 0 && (own == nil || e.Seq < own.Seq) {
				own = &e
			}
		}
		there := map[string]int{}
		for _, e := range entries {
			if own == nil || e.Seq != own.Seq && (e.Fence != 0 || e.Seq < own.Seq) {
				there[e.tag]++
			}
		}
		blocked := false
		for other, r := range s.rules[tag] {
			blocked = blocked || r.Kind != relations.None && there[other] > r.Allow
		}
		if !blocked {
			return tag
		}
	}
	return ""
}

// settle waits until no waiter waits for a free lock.
func (s *queueing) settle(ctx context.Context) error {
	s.tally.Checked(freeIsGranted, 1)
	since, last := time.Now(), -1
	for {
		waiters := s.waiters()
		entries, err := s.entries(ctx)
		if err != nil {
			return err
		}
		free := s.free(entries)
		if free == "" {
			return nil
		}
		if waiters != last {
			since, last = time.Now(), waiters
		}
		if time.Since(since) > bound {
			s.tally.Violated(freeIsGranted, "rules %v: %q is free for %v, and %d wait: %+v", s.rules, free, bound, waiters, entries)
			return fmt.Errorf("a waiter is forgotten")
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// quiet counts the commands while nothing changes and nothing has changed for a
// while.
func (s *queueing) quiet(ctx context.Context) error {
	time.Sleep(quiet)
	before, err := s.entries(ctx)
	if err != nil {
		return err
	}
	waiters, sent, begun := s.waiters(), s.sent.Load(), time.Now()
	time.Sleep(quiet)
	n, took := s.sent.Load()-sent, time.Since(begun)
	after, err := s.entries(ctx)
	if err != nil || len(before) != len(after) || waiters == 0 || s.waiters() != waiters || took > quiet*5/4 {
		return err
	}
	asking := 1
	for _, e := range after {
		if e.Owner == here && e.Fence == 0 {
			asking++
		}
	}
	s.tally.Checked(refusedRests, 1)
	if n > int64(asking*mostPolls) {
		s.tally.Violated(refusedRests, "rules %v: %d commands in %v, of %d waiters, %d of them with a place", s.rules, n, quiet, waiters, asking-1)
	}
	return nil
}
