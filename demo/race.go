package main

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// A result is what one run did, and what a full scan found after it.
type result struct {
	Locks bool `json:"locks"`
	Counts
	scanResult
	Operations          int64   `json:"operations"`
	Seconds             float64 `json:"seconds"`
	OperationsPerSecond float64 `json:"operationsPerSecond"`
	CommandsPerSecond   float64 `json:"commandsPerSecond"`
}

// race resets the address book, runs adders and deleters in several processes, and then scans the address book.
func (d *demo) race(ctx context.Context, locks bool, progress func(Counts)) (result, error) {
	if err := d.book.reset(ctx, d.people); err != nil {
		return result{}, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	var processes []*process
	defer func() {
		cancel(nil)
		for _, p := range processes {
			p.stop()
		}
	}()
	for i := range d.settings.processes {
		p, err := start(ctx, job{
			URI:      d.uri,
			Database: d.database.Name(),
			Locks:    locks,
			Adders:   d.settings.adders(),
			Deleters: d.settings.deleters(),
			Work:     d.settings.work,
			Duration: d.settings.duration,
			Seed:     d.settings.seed + uint64(i),
		})
		if err != nil {
			return result{}, err
		}
		processes = append(processes, p)
	}
	for _, p := range processes {
		if m, err := p.next(); err != nil {
			return result{}, err
		} else if !m.Ready {
			return result{}, fmt.Errorf("worker %d did not report that it is ready", p.cmd.Process.Pid)
		}
	}
	for _, p := range processes {
		if err := p.proceed(); err != nil {
			return result{}, err
		}
	}

	sum := totals{latest: make([]Counts, len(processes)), show: progress}
	took := make([]time.Duration, len(processes))
	var listening sync.WaitGroup
	for i, p := range processes {
		listening.Go(func() {
			var err error
			if took[i], err = sum.follow(i, p); err != nil {
				cancel(err) // ends the other workers too
			}
		})
	}
	listening.Wait()
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx) // the first error
	}
	found, err := d.book.scan(ctx)
	if err != nil {
		return result{}, err
	}
	return newResult(locks, sum.counts(), found, took), nil
}

func newResult(locks bool, counts Counts, found scanResult, took []time.Duration) result {
	var longest time.Duration
	for _, d := range took {
		longest = max(longest, d)
	}
	r := result{Locks: locks, Counts: counts, scanResult: found, Operations: counts.operations(), Seconds: longest.Seconds()}
	if r.Seconds > 0 {
		r.OperationsPerSecond = float64(r.Operations) / r.Seconds
		r.CommandsPerSecond = float64(r.Commands) / r.Seconds
	}
	return r
}

// totals adds up the counts of the workers.
type totals struct {
	mu     sync.Mutex
	latest []Counts // by worker
	show   func(Counts)
}

// follow receives a worker's messages until its result has come.
func (t *totals) follow(i int, p *process) (took time.Duration, err error) {
	for {
		m, err := p.next()
		switch {
		case err != nil:
			return 0, err
		case m.Result != nil:
			t.set(i, *m.Result)
			return m.Elapsed, nil
		case m.Progress != nil:
			t.show(t.set(i, *m.Progress))
		}
	}
}

// set replaces the counts of one worker, and returns the sum.
func (t *totals) set(i int, c Counts) (sum Counts) {
	t.mu.Lock()
	t.latest[i] = c
	t.mu.Unlock()
	return t.counts()
}

func (t *totals) counts() (sum Counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.latest {
		sum = sum.plus(c)
	}
	return sum
}
