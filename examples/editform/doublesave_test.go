package main

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"

	"github.com/doclock/doclock/internal/faultnet"
)

var (
	rounds = flag.Int("rounds", 20, "how many double saves TestDoubleSaves makes")
	seed   = flag.Uint64("seed", 0, "of the faults of TestDoubleSaves; 0 chooses one")
)

// Two tabs with one form save at the same time, through two replicas and with
// faults between them and the database. At most one save is applied. The tab of
// an applied save is told so, or that the outcome is unknown; every other tab is
// told that nothing was saved, or that the outcome is unknown.
func TestDoubleSaves(t *testing.T) {
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	t.Logf("-seed %d", *seed)
	d := &doubleSaves{application: newApplication(t), random: rand.New(rand.NewPCG(*seed, 0)), statuses: map[int]int{}, faults: map[faultnet.Kind]int{}}
	for round := range *rounds {
		d.round(round)
	}
	t.Logf("%d rounds; answers: %v; faults: %v", *rounds, d.statuses, d.faults)
	if d.statuses[http.StatusOK] == 0 || d.statuses[http.StatusConflict] == 0 {
		t.Error("no save was accepted, or none was refused")
	}
}

type doubleSaves struct {
	*application
	random   *rand.Rand
	form     form // what both tabs have
	closed   bool
	statuses map[int]int
	faults   map[faultnet.Kind]int
}

func (d *doubleSaves) round(round int) {
	const perPage = 50
	id := fmt.Sprint("page ", round/perPage)
	if round%perPage == 0 {
		d.insert(id)
	}
	if round%perPage == 0 || d.closed {
		d.form = d.open("Ada", id)
	}
	d.form.page = d.stored(id)
	d.closed = d.random.IntN(5) == 0
	then := [2]string{"go on", "go on"}
	if d.closed {
		then[d.random.IntN(2)] = "close"
	}

	disturbed := d.disturb()
	var tabs sync.WaitGroup
	var lines [2]string
	var replies [2]reply
	for i := range 2 {
		lines[i] = fmt.Sprintf("round %d tab %d\n", round, i)
		tab := d.form
		tab.Text += lines[i]
		tabs.Go(func() { replies[i] = d.post("save", tab, "then", then[i]) })
	}
	tabs.Wait()
	faults := disturbed.end()

	after := d.stored(id)
	accepted, applied := 0, 0
	for i, got := range replies {
		d.statuses[got.status]++
		wrote := after.Text == d.form.Text+lines[i]
		if wrote {
			applied++
		}
		switch got.status {
		case http.StatusOK, http.StatusSeeOther:
			accepted++
			if !wrote {
				d.Errorf("round %d: tab %d, which would %s, was told that it had saved, and it had not", round, i, then[i])
			}
		case http.StatusConflict, http.StatusServiceUnavailable:
			if wrote {
				d.Errorf("round %d: tab %d, which would %s, was told that it had not saved, and it had: %d %s", round, i, then[i], got.status, got.why())
			}
		case http.StatusBadGateway: // unknown
		default:
			d.Errorf("round %d: tab %d: %d %s", round, i, got.status, got.body)
		}
	}
	if after.Saves != d.form.Saves+applied || applied == 0 && after.Text != d.form.Text {
		d.Errorf("round %d: after %d saves of %q there are %d, and %q", round, d.form.Saves, d.form.Text, after.Saves, after.Text)
	}
	if faults == 0 && accepted != 1 {
		d.Errorf("round %d: %d saves were accepted without a fault, want 1: %d, %d", round, accepted, replies[0].status, replies[1].status)
	}
}

// A disturbance is the faults of one round.
type disturbance struct {
	*doubleSaves
	letters sync.WaitGroup
	over    chan struct{}
	armed   map[*faultnet.Fault]faultnet.Kind
}

// disturb arms up to three faults, in one round of two.
func (d *doubleSaves) disturb() *disturbance {
	round := &disturbance{doubleSaves: d, over: make(chan struct{}), armed: map[*faultnet.Fault]faultnet.Kind{}}
	kinds := []faultnet.Kind{faultnet.LoseRequest, faultnet.LoseReply, faultnet.Hold, faultnet.DelayReply, faultnet.Repeat, faultnet.Cut}
	for range d.random.IntN(2) * (1 + d.random.IntN(3)) {
		kind := kinds[d.random.IntN(len(kinds))]
		fault := d.nets[d.random.IntN(2)].Arm(kind, "findAndModify")
		round.armed[fault] = kind
		if kind != faultnet.Hold && kind != faultnet.DelayReply && kind != faultnet.Repeat {
			continue
		}
		// After both answers. A repeat before the answer would be executed in its place,
		// which no network does.
		late := kind == faultnet.Repeat || kind == faultnet.Hold && d.random.IntN(2) == 0
		round.letters.Go(func() {
			select {
			case <-fault.Fired():
			case <-round.over:
				select {
				case <-fault.Fired():
				default:
					return
				}
			}
			if late {
				<-round.over
			}
			if err := fault.Let(); err != nil {
				d.Logf("%v: %v", kind, err)
			}
		})
	}
	return round
}

// end waits until the messages on the way have arrived, and counts the faults.
func (round *disturbance) end() (faults int) {
	for _, net := range round.nets {
		net.Disarm()
	}
	close(round.over)
	round.letters.Wait()
	for fault, kind := range round.armed {
		select {
		case <-fault.Fired():
			faults++
			round.doubleSaves.faults[kind]++
		default:
		}
	}
	return faults
}
