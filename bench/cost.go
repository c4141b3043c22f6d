package main

import (
	"context"
	"runtime"
	"time"
)

// cost is the total cost of a row of commands.
type cost struct {
	round
	cpu             time.Duration // of the server
	seen            bool          // whether the server's processes can be seen
	sent, received  int64         // bytes on the network
	allocs, garbage uint64        // of the client: allocations, and their bytes
}

// measure sends commands one after another. Nothing else may run in the
// process.
func (c *commander) measure(ctx context.Context, sends []func(context.Context) error) (paid cost, err error) {
	paid.latencies = make([]time.Duration, 0, len(sends))
	var before, after runtime.MemStats
	cpu, seen := c.servers.serverCPU()
	sent, received, commands := c.wire.sent.Load(), c.wire.received.Load(), c.counter.total()
	runtime.ReadMemStats(&before)
	for _, send := range sends {
		start := time.Now()
		if err := send(ctx); err != nil {
			return paid, err
		}
		paid.latencies = append(paid.latencies, time.Since(start))
		paid.took += paid.latencies[len(paid.latencies)-1]
	}
	runtime.ReadMemStats(&after)
	paid.commands = c.counter.total() - commands
	paid.sent, paid.received = c.wire.sent.Load()-sent, c.wire.received.Load()-received
	paid.allocs, paid.garbage = after.Mallocs-before.Mallocs, after.TotalAlloc-before.TotalAlloc
	used, still := c.servers.serverCPU()
	paid.cpu, paid.seen = used-cpu, seen && still
	return paid, nil
}

// beside is a block of commands and the block of plain commands before it.
type beside struct{ own, plain cost }

// priceColumns are the columns of the table.
var priceColumns = []string{"time_over_plain", "server_cpu_over_plain", "bytes_sent", "bytes_received", "client_allocations", "client_bytes_allocated"}

// price records the cost of a kind of command: medians over the blocks, or over
// their ratios, each one with its own plain block.
func (b *bench) price(name string, blocks []beside) {
	r, seen := b.newResult("commands", name), true
	for _, one := range blocks {
		r.rounds = append(r.rounds, one.own.round)
		seen = seen && one.own.seen && one.plain.seen
	}
	perCommand := func(key string, f func(cost) float64) {
		var values []float64
		for _, one := range blocks {
			values = append(values, over(f(one.own), float64(one.own.ops())))
		}
		r.add(key, rounded(spreadOf(values).mid))
	}
	overPlain := func(key string, f func(cost) float64) {
		var ratios []float64
		for _, one := range blocks {
			ratios = append(ratios, over(f(one.own), f(one.plain)))
		}
		s := spreadOf(ratios)
		r.add(key, rounded(s.mid))
		r.add(key+ofRounds, both(s))
	}
	overPlain("time_over_plain", cost.p50)
	if seen {
		overPlain("server_cpu_over_plain", cost.work)
		perCommand("server_cpu_us", cost.work)
	}
	perCommand("bytes_sent", func(c cost) float64 { return float64(c.sent) })
	perCommand("bytes_received", func(c cost) float64 { return float64(c.received) })
	perCommand("client_allocations", func(c cost) float64 { return float64(c.allocs) })
	perCommand("client_bytes_allocated", func(c cost) float64 { return float64(c.garbage) })
}

// work is the server's processor time, in microseconds.
func (c cost) work() float64 { return micros(c.cpu) }
