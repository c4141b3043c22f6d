package proof

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/simulation"
)

// This file runs the library and a client in another language, which shares no code with it,
// on the same documents.

var clients = flag.Duration("clients", 0, "how long TestClients makes histories")

// TestClients runs the tests of the client for Node, and makes histories of its processes and
// Go's. It needs the packages of clients/node (npm ci).
//
//	go test -C proptest/proof -v -timeout 1h -run TestClients . -args -clients 10m
func TestClients(t *testing.T) {
	if *clients == 0 {
		t.Skip("no time is given: -clients 10m")
	}
	node, err := filepath.Abs(root + "/clients/node")
	if err != nil {
		t.Fatal(err)
	}
	uri := mongotest.URI(t)
	tests := exec.CommandContext(t.Context(), "npm", "test")
	tests.Dir, tests.Env = node, append(os.Environ(), "MONGODB_URI="+uri)
	if out, err := tests.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	p := &proof{T: t, size: full, begun: time.Now()}
	cfg := simulation.ServerConfig{ // two processes are this program, and two are the other one
		URI: uri, Other: node + "/simulation/worker.mjs", Processes: 4, CallersPerProcess: 8, Operations: 2_000, Faults: true,
	}
	sides, met, rounds := map[string]*side{"Go": {}, "Node": {}}, false, 0
	for ; time.Since(p.begun) < *clients || !met && rounds < 10; rounds++ { // some more if they have not met by then
		h, err := p.simulated(t.Context(), cfg, rounds, &p.counts)
		if err != nil {
			t.Fatal(err)
		}
		sum(sides, h)
		met = sides["Go"].keptBack+sides["Node"].keptBack > 0
	}
	p.counts.Report(t)
	for name, s := range sides {
		t.Logf("%s: %+v", name, *s)
		if s.granted == 0 || s.applied == 0 {
			t.Errorf("%s did nothing that counts", name)
		}
	}
	if !met {
		t.Error("neither kept the other back")
	}
	t.Logf("%d rounds of %d operations; killed: %d; violations: %d", rounds, cfg.Operations, p.counts.Faults[simulation.FaultKilled], violations(&p.counts))
}

// side is what the processes of one language have done: their leases, those that waited for the other's, and the writes
// that were applied.
type side struct{ processes, granted, keptBack, applied int }

// sum adds what a history has of both languages. Node's processes name themselves in the
// entries that they make.
func sum(sides map[string]*side, h *history.History) {
	entries, processes := map[string]string{}, map[int]string{} // their languages
	for _, c := range h.Commands {
		if c.Kind != history.CommandAcquire {
			continue
		}
		of := "Go"
		if strings.HasPrefix(c.Owner, "node/") {
			of = "Node"
		}
		entries[c.ID], processes[c.Process] = of, of
	}
	for _, of := range processes {
		sides[of].processes++
	}
	rules := map[string]history.Rules{}
	for _, d := range h.Documents {
		rules[d.ID] = d.Rules
	}
	keptBack := map[string]bool{}
	for _, c := range h.Commands {
		of, asked := entries[c.ID]
		if !asked || c.Image == nil || slices.ContainsFunc(c.Image.Entries, func(e history.Entry) bool { return e.ID == c.ID && e.Fence != 0 }) {
			continue
		}
		for _, e := range c.Image.Entries {
			_, respects := rules[c.Document][c.Tag][e.Tag]
			by, known := entries[e.ID]
			if known && by != of && respects && e.Fence != 0 && e.Expires > c.Image.Now {
				keptBack[c.ID] = true
			}
		}
	}
	for id := range keptBack {
		sides[entries[id]].keptBack++
	}
	for _, o := range h.Operations {
		s := sides[processes[o.Process]]
		if s == nil {
			continue // an operator's
		}
		if o.Outcome == history.Granted {
			s.granted++
		}
		if o.Outcome == history.Done && o.Write != "" {
			s.applied++
		}
	}
}
