package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A stage is where the program's runs and its scene take place: a database of their own.
type stage struct {
	settings settings
	uri      string
	database *mongo.Database
	book     *book
	people   []person
}

// A result is how one run went.
type result struct {
	Locks bool `json:"locks"`
	Counts
	finding
	Operations          int64   `json:"operations"`
	Seconds             float64 `json:"seconds"`
	OperationsPerSecond float64 `json:"operationsPerSecond"`
	CommandsPerSecond   float64 `json:"commandsPerSecond"`
}

// race lets all hands work on a fresh address book, and then looks what has become of it.
func (s *stage) race(ctx context.Context, locks bool, progress func(Counts)) (result, error) {
	if err := s.book.fill(ctx, s.people); err != nil {
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
	for i := range s.settings.processes {
		p, err := start(ctx, order{
			URI:      s.uri,
			Database: s.database.Name(),
			Locks:    locks,
			Adders:   s.settings.adders(),
			Deleters: s.settings.deleters(),
			Work:     s.settings.work,
			Duration: s.settings.duration,
			Seed:     s.settings.seed + uint64(i),
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
			return result{}, fmt.Errorf("worker %d began before it was told to", p.cmd.Process.Pid)
		}
	}
	for _, p := range processes {
		if err := p.signal(); err != nil {
			return result{}, err
		}
	}

	board := scoreboard{latest: make([]Counts, len(processes)), show: progress}
	took := make([]time.Duration, len(processes))
	var listening sync.WaitGroup
	for i, p := range processes {
		listening.Go(func() {
			var err error
			if took[i], err = board.follow(i, p); err != nil {
				cancel(err) // the others too
			}
		})
	}
	listening.Wait()
	if ctx.Err() != nil {
		return result{}, context.Cause(ctx) // the first error
	}
	found, err := s.book.scan(ctx)
	if err != nil {
		return result{}, err
	}
	return newResult(locks, board.sum(), found, took), nil
}

func newResult(locks bool, counts Counts, found finding, took []time.Duration) result {
	var longest time.Duration
	for _, d := range took {
		longest = max(longest, d)
	}
	r := result{Locks: locks, Counts: counts, finding: found, Operations: counts.operations(), Seconds: longest.Seconds()}
	if r.Seconds > 0 {
		r.OperationsPerSecond = float64(r.Operations) / r.Seconds
		r.CommandsPerSecond = float64(r.Commands) / r.Seconds
	}
	return r
}

// A scoreboard adds up what the workers tell.
type scoreboard struct {
	mu     sync.Mutex
	latest []Counts // by worker
	show   func(Counts)
}

// follow listens to a worker until it gives its result.
func (b *scoreboard) follow(i int, p *process) (took time.Duration, err error) {
	for {
		m, err := p.next()
		switch {
		case err != nil:
			return 0, err
		case m.Result != nil:
			b.enter(i, *m.Result)
			return m.Elapsed, nil
		case m.Progress != nil:
			b.show(b.enter(i, *m.Progress))
		}
	}
}

func (b *scoreboard) enter(i int, c Counts) (sum Counts) {
	b.mu.Lock()
	b.latest[i] = c
	b.mu.Unlock()
	return b.sum()
}

func (b *scoreboard) sum() (sum Counts) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, c := range b.latest {
		sum = sum.plus(c)
	}
	return sum
}
