package report

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// chart has horizontal bars: a group for each subject, and in it a bar for each
// series. With one series, ours have their own colour.
type chart struct {
	file, title, axis string
	series            []series
}

// series is one bar of each subject, or none if it has no value.
type series struct {
	name string
	from string   // the case
	key  string   // a column, or a note
	with []string // notes that the row must have
}

const (
	median   = "milliseconds, median (less is better)"
	changes  = "changes per second (more is better)"
	claims   = "documents claimed and finished per second (more is better)"
	pairs    = "Acquiring and releasing a lock"
	handoffs = "From the release in one process to the grant in another"
)

var charts = []chart{
	one("pair", pairs+" without contention", median, "pair", "p50 ms"),
	one("rmw", "Read, change and write one document under a lock that nobody else wants", median, "rmw", "p50 ms"),
	{file: "hot", title: "Many goroutines of one process change one document, under a lock", axis: changes, series: []series{
		{name: "4 goroutines", from: "hot4", key: "ops/s"},
		{name: "64 goroutines", from: "hot64", key: "ops/s"},
		{name: "1,000 goroutines", from: "hot1000", key: "ops/s"},
	}},
	one("hot-commands", "What 64 goroutines that change one document send to the servers", "commands per change (less is better)", "hot64", "commands/op"),
	one("processes", "4 processes of 16 goroutines change one document, under a lock", changes, "processes", "ops/s"),
	one("readers", "32 goroutines hold one document's lock for 2 ms: 95% readers, 5% writers", "locks held per second (more is better)", "readers", "ops/s"),
	{file: "readers-wait", title: "How long the writers among them wait for the lock", axis: "milliseconds (less is better)", series: []series{
		{name: "median", from: "readers", key: "write wait p50 ms"},
		{name: "99th percentile", from: "readers", key: "write wait p99 ms"},
	}},
	{file: "handoff", title: handoffs + " that waits", axis: "milliseconds (less is better)", series: []series{
		{name: "median", from: "handoff", key: "p50 ms"},
		{name: "99th percentile", from: "handoff", key: "p99 ms"},
	}},
	{file: "idle", title: "Waiting for a lock that nobody releases", axis: "commands sent by all waiters of one process (less is better)", series: []series{
		{"1 waiter", "idle", "commands", []string{"waiters 1"}},
		{"10 waiters", "idle", "commands", []string{"waiters 10"}},
		{"100 waiters", "idle", "commands", []string{"waiters 100"}},
	}},
	one("claim", "Workers of 4 processes claim the documents of a queue by priority", claims, "claim", "ops/s"),
	one("claim-commands", "What these workers send for a claim, without the final write", "commands per claim (less is better)", "claim", "commands/op"),
	one("takeover", "The holder of a 2 s lock is killed: how long the next one waits",
		"milliseconds, median (less is better; much less than 2,000 is unsafe)", "takeover", "p50 ms"),
	one("network-pair", pairs+" over a network", median, "pair-*", "p50 ms"),
	one("network-rmw", "Read, change and write one document under a lock over a network", median, "rmw-*", "p50 ms"),
	one("network-hot", "64 goroutines change one document under a lock, over a network", changes, "hot64-*", "ops/s"),
	one("network-handoff", handoffs+", over a network", median, "handoff-*", "p50 ms"),
	one("network-claim", "Workers of 4 processes claim the documents of a queue, over a network", claims, "claim-*", "ops/s"),
}

// one is a chart of one series, or, of a case over a network, of one for each
// latency.
func one(file, title, axis, from, key string) chart {
	return chart{file: file, title: title, axis: axis, series: []series{{from: from, key: key}}}
}

// Plot draws the charts of the measured cases into a directory.
func Plot(tables []Table, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	byName := map[string]Table{}
	for _, t := range tables {
		byName[t.name()] = t
	}
	for _, c := range charts {
		c.series = overLatencies(c.series, tables)
		groups := c.groups(byName)
		if len(groups) == 0 {
			continue // nothing was measured
		}
		if err := os.WriteFile(filepath.Join(dir, c.file+".svg"), c.svg(groups), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// overLatencies replaces a case over a network by those of all latencies.
func overLatencies(all []series, tables []Table) (found []series) {
	for _, s := range all {
		prefix, network := strings.CutSuffix(s.from, "*")
		if !network {
			found = append(found, s)
			continue
		}
		for _, t := range tables {
			if latency, measured := strings.CutPrefix(t.name(), prefix); measured {
				found = append(found, series{name: "round trip " + latency, from: t.name(), key: s.key})
			}
		}
	}
	return found
}

// group is the bars of one subject.
type group struct {
	name string
	own  bool // it is doclock's, and no rival
	bars []bar
}

type bar struct {
	series int
	value  float64
	text   string
}

func (c chart) groups(tables map[string]Table) (all []group) {
	var names []string
	for _, s := range c.series {
		for _, name := range tables[s.from].subjects() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	for _, name := range names {
		g := group{name: name, own: strings.HasPrefix(name, "doclock")}
		for i, s := range c.series {
			if v, text, found := tables[s.from].value(name, s.key, s.with...); found {
				g.bars = append(g.bars, bar{i, v, text})
			}
		}
		if len(g.bars) > 0 {
			all = append(all, g)
		}
	}
	return all
}
