package simulation

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// This file has the world of a replica set in memory, in virtual time. Its history tells
// less than that of one server: a deposed primary answers by an old document. Its ledger
// judges no times.

const (
	FaultElection   = "election"
	FaultAgain      = "two elections in a row"
	FaultDeposed    = "deposed primary beside a new one"
	FaultAlone      = "program that reaches a deposed primary alone"
	FaultNewcomer   = "program started at a primary that is being deposed"
	FaultIsolated   = "primary isolated, and still the primary when it is back"
	FaultNoMajority = "no majority of members"
	FaultTurned     = "member's clock turned"
	FaultLocked     = "document locked by somebody's transaction"
)

const (
	SeenRolledBack = "entries that were rolled back"
	SeenUnknown    = "calls with an unknown outcome"
	SeenLost       = "calls that were told a loss"
)

// Cluster runs the seeds on a replica set, and counts the checks and what was seen.
func Cluster(t *testing.T, c Config, counts *tally.Tally) {
	c.each(t, func(t *testing.T, seed uint64) {
		of := shapeOf(seed)
		of.fits = true
		s := newInMemory(world{shape: of, mem: locktest.New(t, locktest.ReplicaSet()), faulty: true, pace: 1, apart: tolerance / 2})
		a := &adversary{runner: s.runner(callers + 2), ahead: map[string]time.Duration{}, alone: map[string]bool{}}
		a.inVirtualTime(c.Long, func() { a.calm(counts) }, a.members, a.clocks, a.stranger)
		a.judge(counts)
		a.checkCommands(counts)
		a.count(counts)
	})
}

// adversary has the members of a replica set do wrong.
type adversary struct {
	runner
	ahead     map[string]time.Duration // of the members' clocks
	newcomers sync.WaitGroup
	arrived   []*program      // the newcomers
	alone     map[string]bool // ids that an old primary had when it came back
}

// members elects primaries and isolates members until over.
func (a *adversary) members(over context.Context) {
	for over.Err() == nil {
		a.pause(3 * time.Second)
		switch a.IntN(8) {
		case 0:
			a.elect()
		case 1:
			a.elect()
			a.pause(200 * time.Millisecond)
			a.elect()
			a.fire(FaultAgain)
		case 2:
			a.mem.Isolate(a.mem.Secondaries()...)
			a.last(3 * time.Second)
			a.fire(FaultNoMajority)
		default:
			a.partition()
		}
		a.mem.Heal()
	}
	a.newcomers.Wait()
}

// last waits for a random time, now and then for longer than a lease lives.
func (a *adversary) last(most time.Duration) {
	if a.one(6) {
		most = 2 * longestTTL
	}
	a.pause(most)
}

func (a *adversary) elect() {
	before := a.mem.Primary()
	if a.mem.StepDown(); a.mem.Primary() != before {
		a.fire(FaultElection)
	}
}

// partition leaves the primary alone with some programs, and mostly has the others elect
// another one. What it writes meanwhile is rolled back. If it has written nothing, it
// answers a newcomer by an old document.
func (a *adversary) partition() {
	old, others := a.mem.Primary(), a.mem.Secondaries()
	if a.one(3) {
		a.newcomer(others)
		for _, p := range a.programs {
			a.mem.Cut(p.client, old)
		}
		a.mem.Isolate(old)
	} else {
		for _, p := range a.programs {
			if a.one(2) {
				a.mem.Cut(p.client, others...)
				a.fire(FaultAlone)
			}
		}
		if a.one(3) {
			a.newcomer(others)
		}
		a.mem.Isolate(old)
		a.pause(3 * time.Second)
	}
	if a.one(5) {
		a.fire(FaultIsolated)
		return
	}
	a.elect()
	a.fire(FaultDeposed)
	if a.last(6 * time.Second); a.one(3) {
		a.elect()
		a.pause(time.Second)
	}
	a.remember(others)
}

// newcomer starts a program that reaches one member.
func (a *adversary) newcomer(others []string) {
	n := len(a.programs) + len(a.arrived)
	p := a.newProgram(n)
	a.mem.Cut(p.client, others...)
	a.arrived = append(a.arrived, p)
	a.fire(FaultNewcomer)
	a.newcomers.Go(func() {
		r := a.runner.run.runner(callers + 10 + n)
		for range 8 {
			r.pause(time.Second)
			r.touch(p)
		}
		r.resume(p)
		for range 4 {
			r.turnOf(p)
		}
	})
}

// remember notes the ids in the documents of a deposed primary.
func (a *adversary) remember(others []string) {
	client := a.mem.Connect(options.Client().SetRetryReads(false))
	a.mem.Cut(client, others...)
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	defer func() { _ = client.Disconnect(context.Background()) }()
	found, err := client.Database("test").Collection("orders").Find(ctx, bson.M{})
	if err != nil {
		return
	}
	for found.Next(ctx) {
		for _, e := range history.ReadImage(found.Current).Entries {
			a.alone[e.ID] = true
		}
	}
}

// clocks turns the members' clocks until over, by less than the half of the tolerance.
func (a *adversary) clocks(over context.Context) {
	r := a.runner.run.runner(callers + 3)
	for over.Err() == nil {
		r.pause(4 * time.Second)
		member := append(a.mem.Secondaries(), a.mem.Primary())[r.IntN(3)]
		ahead := r.upTo(tolerance-2*time.Millisecond) - tolerance/2 + time.Millisecond
		a.mem.Advance(ahead-a.ahead[member], member)
		a.ahead[member] = ahead
		r.fire(FaultTurned)
	}
}

// stranger writes documents in transactions that stay open for a time.
func (a *adversary) stranger(over context.Context) {
	r := a.runner.run.runner(callers + 4)
	coll := a.mem.Connect(options.Client()).Database("test").Collection("orders")
	for over.Err() == nil {
		r.pause(10 * time.Second)
		session, err := coll.Database().Client().StartSession()
		if err == nil {
			err = session.StartTransaction()
		}
		if err != nil {
			a.fault("a stranger's transaction: %v", err)
			return
		}
		bounded := func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(mongo.NewSessionContext(context.Background(), session), 5*time.Second)
		}
		inside, cancel := bounded()
		for range 1 + r.IntN(3) {
			if _, err := coll.UpdateOne(inside, bson.M{"_id": r.groups[0].documents[r.IntN(4)]}, bson.M{"$inc": bson.M{"strange": 1}}); err == nil {
				r.fire(FaultLocked)
			}
		}
		cancel()
		sleep(over, r.upTo([]time.Duration{time.Second, longestTTL, 40 * time.Second}[r.IntN(3)]))
		inside, cancel = bounded()
		if r.one(2) {
			_ = session.CommitTransaction(inside)
		}
		session.EndSession(inside)
		cancel()
	}
}

// calm looks for entries that nobody holds, when all calls have returned and the members
// agree.
func (a *adversary) calm(counts *tally.Tally) {
	a.programs = append(a.programs, a.arrived...)
	if time.Sleep(5 * time.Second); time.Now().Before(a.rests) {
		return
	}
	left, unclean := map[string]bool{}, false
	for _, p := range a.programs {
		unclean = unclean || p.left != nil
	}
	for _, h := range a.holdings {
		left[h.id] = left[h.id] || h.alone
	}
	for _, e := range a.operator.entries() {
		id := text(e.ID)
		counts.Checked(EntriesGone, 1)
		if !e.Expired() && e.State != admin.Remainder && !e.HasToken && !left[id] && !a.tickets[id] && !unclean {
			counts.Violated(EntriesGone, "seed %d: %v; the history: %s", a.seed, e, a.recorded().Keep())
		}
	}
}

// count checks what callers were told of documents, and counts what was seen.
func (a *adversary) count(counts *tally.Tally) {
	h := a.history.History()
	known := map[string]bool{} // ids of entries that were acknowledged
	for _, c := range h.Commands {
		if c.Image != nil {
			for _, e := range c.Image.Entries {
				known[e.ID] = true
			}
		}
	}
	for id := range a.alone {
		if !known[id] {
			counts.Seen(ofCluster+SeenRolledBack, 1)
		}
	}
	for _, c := range a.calls {
		switch {
		case c.unknown():
			counts.Seen(ofCluster+SeenUnknown, 1)
		case errors.Is(c.err, doclock.ErrLost):
			counts.Seen(ofCluster+SeenLost, 1)
		}
	}
}
