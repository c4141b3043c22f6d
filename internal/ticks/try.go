package ticks

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
)

// lease is the Lockers' TTL.
const lease = 10 * time.Second

// Promise is what is promised for ticks.
type Promise struct {
	Apart time.Duration // no tick runs twice if its instances ask within this time of each other
	Each  bool          // each tick runs, unless an earlier run is in its way
}

// Try starts three processes of a child's name. It kills the one that runs the long job, in the middle of it, or that leads.
// It ends when the others have run both jobs.
func Try(t *testing.T, name string, promise Promise) {
	uri, database := mongotest.URI(t), mongotest.Database(t).Name()
	r := record{promise: promise, killed: -1, changed: make(chan struct{}, 1)}
	for i := range 3 {
		instance := Instance{URI: uri, Database: database, Owner: strconv.Itoa(i), Behind: time.Duration(i) * Spread / 2}
		p, err := child.Start(t.Context(), name, instance, func(_ *child.Process, text string) { r.note(t, i, text) })
		if err != nil {
			t.Fatal(err)
		}
		r.mu.Lock()
		r.processes = append(r.processes, p)
		r.mu.Unlock()
	}
	patience := time.After(mongotest.Patience)
	for done := false; !done; {
		select {
		case <-r.changed:
			done = r.enough()
		case <-patience:
			t.Error("it did not come about that another process ran both jobs")
			done = true
		}
	}
	for i, p := range r.processes {
		if err := p.End(); err != nil && i != r.killed {
			t.Errorf("process %d: %v", i, err)
		}
	}
	for _, job := range slices.Sorted(maps.Keys(Jobs)) {
		r.judge(t, job)
	}
}

// record is what the processes said.
type record struct {
	promise Promise
	changed chan struct{}

	mu        sync.Mutex
	processes []*child.Process
	said      []said
	killed    int
	since     int // the number of lines at the kill
}

type said struct {
	process int
	line
}

// note notes a line. After two ticks it kills the process that holds the lock of the long job, or leads.
func (r *record) note(t *testing.T, process int, text string) {
	var l line
	if err := json.Unmarshal([]byte(text), &l); err != nil {
		t.Logf("process %d: %s", process, text) // killed while it wrote, or failed
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.said = append(r.said, said{process, l})
	holder, err := strconv.Atoi(l.By)
	leads := !r.promise.Each && l.What == "over"
	if leads {
		holder = process
	}
	if r.killed < 0 && r.count("over", "short", 0) >= 2 && (leads || l.What == "refused" && l.Job == "long" && err == nil) {
		r.killed, r.since = holder, len(r.said)
		r.processes[holder].Kill()
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

// count counts lines from one on.
func (r *record) count(what, job string, from int) (n int) {
	for _, s := range r.said[from:] {
		if s.What == what && s.Job == job && (from == 0 || s.process != r.killed) {
			n++
		}
	}
	return n
}

func (r *record) enough() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.killed >= 0 && r.count("over", "short", r.since) >= 2 && r.count("over", "long", r.since) >= 1
}

// judge, when all processes have ended, fails if a promise is broken, and logs the run.
func (r *record) judge(t *testing.T, job string) {
	asked, unknown := map[int64]bool{}, map[int64]bool{}                  // by tick
	granted, over := map[int64]time.Duration{}, map[int64]time.Duration{} // when, at the latest, after the tick
	var doubled, late, behind, skipped, missed, failed int
	for _, s := range r.said {
		if s.Job != job {
			continue
		}
		asked[s.Tick] = true
		switch s.What {
		case "granted":
			granted[s.Tick] = max(granted[s.Tick], s.Late)
			over[s.Tick] = max(over[s.Tick], s.Late+r.promise.Apart)
		case "released":
			over[s.Tick] = max(over[s.Tick], s.Late)
		case "doubled":
			if granted[s.Tick]+Spread+early < r.promise.Apart {
				doubled++
				t.Errorf("%s: tick %d ran twice, and nobody was late", job, s.Tick)
			} else {
				late++
			}
		case "failed":
			failed++
			unknown[s.Tick] = true
			over[s.Tick] = max(over[s.Tick], s.Late+lease) // it may have been granted
			t.Logf("%s: tick %d, process %d: %s", job, s.Tick, s.process, s.By)
		}
	}
	for tick := range asked {
		if _, ran := granted[tick]; ran || unknown[tick] || !r.promise.Each {
			continue
		}
		inTheWay := func(s said) bool {
			return s.Job == job && s.Tick == tick && s.What == "refused" && s.By == strconv.Itoa(r.killed)
		}
		switch {
		case slices.ContainsFunc(r.said, inTheWay):
			behind++
		case busy(over, tick):
			skipped++
		default:
			missed++
			t.Errorf("%s: tick %d did not run", job, tick)
		}
	}
	t.Logf("%-5s  ticks %2d, ran %2d, doubled %d, missed %d; an earlier run outlasted %d, of a dead process %d; late %d, failed %d; process %d killed",
		job, len(asked), len(granted), doubled, missed, skipped, behind, late, failed, r.killed)
}

// busy reports whether an earlier run could be in a tick's way.
func busy(over map[int64]time.Duration, tick int64) bool {
	for earlier, free := range over {
		if earlier < tick && free+Spread >= time.Duration(tick-earlier)*Period {
			return true
		}
	}
	return false
}
