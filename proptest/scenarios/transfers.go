package scenarios

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	moverKilled  = "process that moves money killed (-9)"
	moverStopped = "process that moves money stopped past its leases (SIGSTOP), and continued"
	leftOver     = "transfer finished by another client"
	transferred  = "transfer"
	conserved    = "the sum never changes"
	booked       = "a transfer that was reported as done is in the books"
	noDeadlock   = "no transfer waits for ever"
)

const (
	movers   = 4 // processes
	clients  = 4 // of each; two in a short run, which get through sooner
	accounts = 10
	each     = 100 // on each account, at first
)

// moved is what a client says after a transfer.
type moved struct {
	Client, Finished int
	Verdict          string // "" if it is done
	Error            string
}

// move has the clients of a process move money until ctx ends, two to five accounts at a
// time.
func move(ctx context.Context, j job, coll *mongo.Collection) error {
	locks, err := multilock.New(coll, relations.Exclusive(), doclock.TTL(long), doclock.Owner(j.Owner))
	if err != nil {
		return err
	}
	var all sync.WaitGroup
	for client := range j.Clients {
		all.Go(func() {
			b := &bank{accounts: coll, locks: locks, careless: j.Careless}
			for ctx.Err() == nil {
				bounded, stop := context.WithTimeout(context.WithoutCancel(ctx), patience)
				err := b.carryOut(bounded, newTransfer(rand.Perm(accounts)[:2+rand.N(4)], 1+rand.N(5)))
				done := moved{Client: client, Finished: b.finished}
				if err != nil {
					done.Verdict, done.Error = verdict(bounded, err), err.Error()
				}
				stop()
				b.finished = 0
				say(done)
			}
		})
	}
	all.Wait()
	return locks.Close(context.WithoutCancel(ctx))
}

// verdict is the kind of a transfer's error. One command's deadline may pass while
// the process is stopped; only the end of ctx shows a transfer that waits for ever.
func verdict(ctx context.Context, err error) string {
	switch {
	case ctx.Err() != nil:
		return "stuck"
	case errors.Is(err, doclock.ErrNotAcquired):
		return "not acquired"
	case errors.Is(err, doclock.ErrLost):
		return "lost"
	case errors.Is(err, doclock.ErrOutcomeUnknown):
		return "unknown"
	default:
		return "other"
	}
}

// mint is the scenario of transfers.
type mint struct {
	crew
	job  job
	bank *bank

	mu      sync.Mutex
	done    int                     // transfers
	through map[string]map[int]bool // clients that got through, by owner
	all     []*mover
}

type mover struct {
	*child.Process
	owner string
}

func moveMoney(t testing.TB, n int, counts *tally.Tally) {
	newMint(t, counts, min(clients, 1+n), false).run(n)
}

func newMint(t testing.TB, counts *tally.Tally, clients int, careless bool) *mint {
	docs := mongotest.Database(t).Collection("accounts")
	m := &mint{crew: crew{counting: counting{t, counts}, docs: docs}, job: job{URI: mongotest.URI(t), Careless: careless, Clients: clients}, through: map[string]map[int]bool{}}
	for id := range accounts {
		_, err := docs.InsertOne(t.Context(), bson.M{"_id": id, "balance": each})
		m.must(err)
	}
	locks, err := multilock.New(docs, relations.Exclusive(), doclock.TTL(long))
	m.must(err)
	m.bank = &bank{accounts: docs, locks: locks, careless: careless}
	for range movers {
		m.all = append(m.all, m.newMover())
	}
	return m
}

func (m *mint) newMover() *mover {
	p, owner := start(&m.crew, "mover", m.job, m.note)
	return &mover{p, owner}
}

// note counts a transfer.
func (m *mint) note(_ *child.Process, owner string, e moved) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.Fired(leftOver, e.Finished)
	if e.Verdict != "" {
		m.Seen(transferred+", given up: "+e.Verdict, 1)
		m.check(noDeadlock, e.Verdict != "stuck" && e.Verdict != "other", "%s: %s", e.Verdict, e.Error)
		return
	}
	m.Seen(transferred, 1)
	m.Checked(noDeadlock, 1)
	m.done++
	if m.through[owner] == nil {
		m.through[owner] = map[int]bool{}
	}
	m.through[owner][e.Client] = true
}

// getThrough waits until so many clients of each of these processes have done a
// transfer from now on, beside what the dead still hold.
func (m *mint) getThrough(n int, all ...*mover) {
	m.Helper()
	m.mu.Lock()
	for _, p := range all {
		delete(m.through, p.owner)
	}
	m.mu.Unlock()
	for _, p := range all {
		m.until("clients get through", func() bool {
			m.expire()
			m.mu.Lock()
			defer m.mu.Unlock()
			return len(m.through[p.owner]) >= n
		})
	}
}

// run kills a process and stops another one, n times, and audits in between.
func (m *mint) run(n int) {
	m.getThrough(m.job.Clients, m.all...)
	for i := range n {
		victim, sleeper := i%movers, (i+1)%movers
		m.all[victim].Kill()
		_ = m.all[victim].End()
		m.Fired(moverKilled, 1)
		m.dead = append(m.dead, m.all[victim].owner)
		m.all[victim] = m.newMover()

		m.all[sleeper].Stop()
		m.Fired(moverStopped, 1)
		m.dead = append(m.dead, m.all[sleeper].owner)
		m.getThrough(1, m.all[(i+2)%movers], m.all[(i+3)%movers])
		m.audit()
		m.dead = m.dead[:len(m.dead)-1]
		m.all[sleeper].Continue()
		m.getThrough(1, m.all...)
	}
	m.settle()
}

// audit locks all accounts, and sums up.
func (m *mint) audit() {
	m.Helper()
	docs := make([]account, accounts)
	wants := make([]multilock.Want, accounts)
	for id := range accounts {
		wants[id] = m.bank.locks.Want(doclock.ID(id), "write", doclock.Into(&docs[id]))
	}
	ctx, stop := context.WithTimeout(m.Context(), patience)
	defer stop()
	leases, err := multilock.AcquireAll(ctx, wants...)
	m.must(err)
	m.balanced(docs)
	m.must(leases.Release(ctx))
}

func (m *mint) balanced(docs []account) (sent, unfinished int) {
	total, sent, unfinished := sum(docs)
	m.check(conserved, total == accounts*each, "%d, and was %d: %+v", total, accounts*each, docs)
	return sent, unfinished
}

// settle finishes what dead processes have left, and checks the books.
func (m *mint) settle() {
	for _, p := range m.all {
		m.must(p.End())
	}
	m.expire()
	for _, doc := range m.read() {
		if doc.Intent != nil && !m.bank.careless {
			m.must(m.bank.finish(m.Context(), doc.Intent))
		}
	}
	sent, unfinished := m.balanced(m.read())
	m.check(booked, sent >= m.done && unfinished == 0, "%d transfers were reported, %d are in the books, %d are unfinished", m.done, sent, unfinished)
	m.must(m.bank.locks.Close(m.Context()))
}

func (m *mint) read() (docs []account) {
	cursor, err := m.docs.Find(m.Context(), bson.M{})
	m.must(err)
	m.must(cursor.All(m.Context(), &docs))
	return docs
}
