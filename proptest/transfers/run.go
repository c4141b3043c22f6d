package transfers

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/child"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// What is counted.
const (
	Killed     = "process killed (-9)"
	Stopped    = "process stopped (SIGSTOP), and continued"
	LeftOver   = "transfer finished by another client"
	Done       = "transfer"
	Conserved  = "the sum never changes"
	Booked     = "a transfer that was reported as done is in the books"
	NoDeadlock = "no transfer waits for ever"
	Progress   = "each client gets through"
)

// Config is the size of a run.
type Config struct {
	URI       string
	DB        *mongo.Database
	For       time.Duration
	Processes int
	Faults    bool
	Careless  bool // the clients lock nothing: the checks must fail
}

// Result is what a run costs.
type Result struct{ Transfers, Accounts, Commands int }

// Run has the clients move money, and checks. The counts are in t.
func Run(ctx context.Context, cfg Config, t *tally.Tally) (Result, error) {
	r := &run{Config: cfg, t: t, coll: cfg.DB.Collection("accounts_" + uuid.NewString()[:8]), through: make([]int, cfg.Processes*perProcess)}
	const each = 100
	for id := range accounts {
		if _, err := r.coll.InsertOne(ctx, bson.M{"_id": id, "balance": each}); err != nil {
			return Result{}, err
		}
	}
	locks, err := multilock.New(r.coll, relations.Exclusive())
	if err != nil {
		return Result{}, err
	}
	defer locks.Close(context.WithoutCancel(ctx))
	r.bank = &bank{accounts: r.coll, locks: locks, finished: func() { t.Fired(LeftOver, 1) }}
	r.total = accounts * each
	if err := r.storm(ctx); err != nil {
		return Result{}, err
	}
	return r.Result, r.settle(ctx)
}

type run struct {
	Config
	t     *tally.Tally
	coll  *mongo.Collection
	bank  *bank
	total int

	mu      sync.Mutex // of the fields below
	through []int      // transfers, by client
	Result
}

// storm runs the processes, disturbs them, and audits.
func (r *run) storm(ctx context.Context) error {
	blowing, calm := context.WithTimeout(ctx, r.For)
	defer calm()
	var all sync.WaitGroup
	errs := make(chan error, r.Processes+1)
	for number := range r.Processes {
		all.Go(func() { errs <- r.keepRunning(ctx, blowing, number) })
	}
	all.Go(func() {
		for blowing.Err() == nil {
			if err := r.audit(ctx); err != nil {
				errs <- err
				return
			}
			time.Sleep(time.Second)
		}
	})
	all.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// keepRunning runs one process after the other, and kills or stops them, until
// the storm is over. Then the last one ends by itself.
func (r *run) keepRunning(ctx, blowing context.Context, number int) error {
	for {
		p, err := r.start(ctx, number)
		if err != nil {
			return err
		}
		killed := r.disturb(blowing, p)
		if err := p.End(); err != nil && !killed {
			return fmt.Errorf("process %d: %w", number, err)
		}
		if !killed {
			return nil
		}
	}
}

// disturb stops a process now and then, and kills it in the end, unless the storm
// is over before.
func (r *run) disturb(blowing context.Context, p *child.Process) (killed bool) {
	for {
		select {
		case <-blowing.Done():
			return false
		case <-time.After(time.Second + rand.N(3*time.Second)):
		}
		switch {
		case !r.Faults:
		case rand.N(2) == 0:
			p.Kill()
			r.t.Fired(Killed, 1)
			return true
		default:
			p.Stop()
			time.Sleep(rand.N(2*ttl) + ttl/2)
			p.Continue()
			r.t.Fired(Stopped, 1)
		}
	}
}

func (r *run) start(ctx context.Context, number int) (*child.Process, error) {
	mode := "careful"
	if r.Careless {
		mode = "careless"
	}
	note := func(_ *child.Process, line string) { r.note(number, line) }
	return child.Start(ctx, childName, []string{r.URI, r.DB.Name(), r.coll.Name(), mode}, note)
}

// note counts a line of a process. A process that was killed may have left half
// of one.
func (r *run) note(process int, line string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var client, n int
	var why string
	switch {
	case scanned(line, "done %d %d", &client, &n):
		r.through[process*perProcess+client]++
		r.Transfers++
		r.Accounts += n
		r.t.Seen(Done, 1)
		r.t.Checked(NoDeadlock, 1)
	case scanned(line, "commands %d", &n):
		r.Commands += n
	case scanned(line, "finished %d", &n):
		r.t.Fired(LeftOver, n)
	case scanned(line, "gave-up %d %s", &client, &why):
		r.t.Seen(Done+", given up: "+strings.TrimSuffix(why, ":"), 1)
		r.t.Checked(NoDeadlock, 1)
		if why == "stuck:" || why == "other:" {
			r.t.Violated(NoDeadlock, "%s", line)
		}
	}
}

func scanned(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// audit locks all accounts, and sums up.
func (r *run) audit(ctx context.Context) error {
	docs := make([]account, accounts)
	wants := make([]multilock.Want, accounts)
	for id := range accounts {
		wants[id] = r.bank.locks.Want(doclock.ID(id), "write", doclock.Into(&docs[id]))
	}
	bounded, end := context.WithTimeout(ctx, 3*longest)
	defer end()
	leases, err := multilock.AcquireAll(bounded, wants...)
	if err != nil {
		return fmt.Errorf("the auditor: %w", err)
	}
	r.check(docs)
	_ = leases.Release(ctx) // a loss doesn't matter: each document was read under its lock
	return nil
}

func (r *run) check(docs []account) (sent, unfinished int) {
	total, sent, unfinished := sum(docs)
	r.t.Checked(Conserved, 1)
	if total != r.total {
		r.t.Violated(Conserved, "%d, and was %d: %+v", total, r.total, docs)
	}
	return sent, unfinished
}

// settle finishes what dead processes have left, and checks the books.
func (r *run) settle(ctx context.Context) error {
	docs, err := r.read(ctx)
	if err != nil {
		return err
	}
	if !r.Careless {
		for _, doc := range docs {
			if doc.Intent == nil {
				continue
			}
			if err := r.bank.finish(ctx, doc.Intent); err != nil {
				return err
			}
		}
		if docs, err = r.read(ctx); err != nil {
			return err
		}
	}
	sent, unfinished := r.check(docs)
	r.t.Checked(Booked, r.Transfers)
	if sent < r.Transfers || unfinished > 0 {
		r.t.Violated(Booked, "%d transfers were reported, %d are in the books, %d are unfinished", r.Transfers, sent, unfinished)
	}
	for client, n := range r.through {
		r.t.Checked(Progress, 1)
		if n == 0 {
			r.t.Violated(Progress, "client %d has done none", client)
		}
	}
	return nil
}

func (r *run) read(ctx context.Context) (docs []account, err error) {
	cursor, err := r.coll.Find(ctx, bson.M{})
	if err != nil {
		return nil, err
	}
	return docs, cursor.All(ctx, &docs)
}
