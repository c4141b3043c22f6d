package main

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
)

// setting names the machine and the servers, and the missing ones.
func (r *report) setting() []string {
	s := r.b.servers
	kind := "full run"
	if r.b.quick {
		kind = "quick run"
	}
	lines := []string{
		fmt.Sprintf("%s of %s, %.0f s", kind, r.b.began.UTC().Format("2006-01-02 15:04 UTC"), r.b.took.Seconds()),
		fmt.Sprintf("machine: %s; %d CPUs; load when it began: %s", model(), runtime.NumCPU(), r.b.load),
		fmt.Sprintf("client: %s, %s/%s; everything runs on this one machine", runtime.Version(), runtime.GOOS, runtime.GOARCH),
		"MongoDB: " + s.Mongo,
	}
	if len(r.b.latencies) > 0 {
		lines = append(lines, fmt.Sprintf("cases with a latency in their names: the clients' dialers put a round trip of %s in front of every server; the case \"network\" shows what it really adds",
			strings.ReplaceAll(strings.Trim(fmt.Sprint(r.b.latencies), "[]"), " ", ", ")))
	}
	var others []string
	for name, about := range s.Version {
		others = append(others, name+": "+about)
	}
	for name, why := range s.Absent {
		others = append(others, name+": ABSENT, its rivals were not measured: "+why)
	}
	return append(lines, slices.Sorted(slices.Values(others))...)
}

// model is the processor and the memory, as Linux reports them.
func model() string {
	name, memory := "unknown processor", ""
	if text, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		for line := range strings.Lines(string(text)) {
			if key, value, _ := strings.Cut(line, ":"); strings.TrimSpace(key) == "model name" {
				name = strings.TrimSpace(value)
				break
			}
		}
	}
	if text, err := os.ReadFile("/proc/meminfo"); err == nil {
		var kb int
		if _, err := fmt.Sscanf(string(text), "MemTotal: %d kB", &kb); err == nil {
			memory = fmt.Sprintf(", %.0f GiB", float64(kb)/(1<<20))
		}
	}
	return name + memory
}

// load is the machine's other work in the last minute.
func load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
