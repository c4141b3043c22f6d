package simulation

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// This file has an application of transactions under a lock, without a line of compensation.
// Each account has an open book. Holders of the account's "read" lock add entries to it. A holder
// of "write" counts the entries, closes the book, and opens the next one. An entry that is
// committed after that makes the count wrong for ever.

const (
	BooksAreRight = "a closed book has the entries that were counted"
	ToldIsTrue    = "what a caller is told of a transaction is true"
	SeenCommitted = "transactions: committed"
	SeenNone      = "transactions: nothing applied"
	SeenUndecided = "transactions: unknown outcome"
	SeenConverted = "transactions: leases converted"
	SeenResumed   = "transactions: leases resumed"
	SeenTakenOver = "transactions: locks taken over"
	SeenBroken    = "transactions: entries broken"
)

const accounts = 3

// bank is a server, and the processes of the application.
type bank struct {
	testing.TB
	counts  *tally.Tally
	mem     *locktest.Server
	members bool
	patient bool
	rules   relations.Rules
	random  *rand.Rand // of the faults
	until   time.Time

	tellers []*teller
	lock    sync.Mutex
	told    map[string]error // by entry or closed book
	all     sync.WaitGroup
}

type teller struct {
	*bank
	client                          *mongo.Client
	locks                           *multilock.Locker
	accounts, entries, open, closed *mongo.Collection

	mu     sync.Mutex
	random *rand.Rand // of the stops
}

// Transactions runs the seeds of the application, and counts the checks.
func Transactions(t *testing.T, c Config, counts *tally.Tally) {
	c.each(t, func(t *testing.T, seed uint64) {
		b := &bank{TB: t, counts: counts, rules: []relations.Rules{relations.WritePreferring(), relations.Fair(), relations.ReadPreferring()}[seed%3],
			random: rand.New(rand.NewPCG(seed, 1)), until: time.Now().Add(c.Long), told: map[string]error{}, members: seed%4 > 0, patient: seed%5 > 0}
		topology := locktest.Sharded()
		if b.members {
			topology = locktest.ReplicaSet()
		}
		b.mem = locktest.New(t, topology)
		b.run(seed)
		b.check(seed)
	})
}

func (b *bank) run(seed uint64) {
	var made, open []any
	for i := range accounts {
		made, open = append(made, doclock.ID(i)), append(open, bson.M{"_id": i, "book": 0})
	}
	db := b.mem.Collection("accounts", made...).Database()
	b.mem.Collection("open", open...)
	for _, name := range []string{"entries", "closed"} { // two transactions that make one conflict
		if err := db.CreateCollection(b.Context(), name); err != nil {
			b.Fatal(err)
		}
	}
	b.mem.LimitTransactions(20 * time.Second)
	for i := range 3 {
		b.tellers = append(b.tellers, b.start(i))
	}
	for i, p := range b.tellers {
		for n := range 4 {
			random := rand.New(rand.NewPCG(seed, uint64(10*i+n+2)))
			b.all.Go(func() { p.work(fmt.Sprintf("%d.%d", i, n), random) })
		}
	}
	b.trouble()
	b.all.Wait()
	for _, p := range b.tellers {
		time.Sleep(time.Minute) // what nobody has released has expired
		if err := p.locks.Close(context.Background()); err != nil {
			b.Error(err)
		}
	}
}

func (b *bank) start(i int) *teller {
	p := &teller{bank: b, random: rand.New(rand.NewPCG(b.random.Uint64(), 2))}
	p.client = b.mem.Connect(options.Client().SetMonitor(&event.CommandMonitor{Started: func(_ context.Context, e *event.CommandStartedEvent) {
		if e.CommandName == "insert" || e.CommandName == "commitTransaction" {
			time.Sleep(p.stops())
		}
	}}))
	db := p.client.Database(b.mem.Collection("accounts").Database().Name())
	p.accounts, p.entries, p.open, p.closed = db.Collection("accounts"), db.Collection("entries"), db.Collection("open"), db.Collection("closed")
	opts := []doclock.Option{doclock.TTL(3 * time.Second)}
	if b.patient { // what was stopped goes on
		opts = append(opts, doclock.AttemptTimeout(30*time.Second))
	}
	if i == 0 && b.rules["read"]["write"].Kind == relations.None {
		opts = append(opts, doclock.ShareInProcess())
	}
	var err error
	if p.locks, err = multilock.New(p.accounts, b.rules, opts...); err != nil {
		b.Fatal(err)
	}
	return p
}

// stops is for how long the caller is stopped in the midst of a transaction: one of twenty, until
// others may have the lock.
func (p *teller) stops() time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.random.IntN(20) > 0 {
		return 0
	}
	return time.Duration(p.random.Int64N(int64(15 * time.Second)))
}

// work is a caller. It abandons one lease of ten.
func (p *teller) work(name string, random *rand.Rand) {
	for n := 0; time.Now().Before(p.until); n++ {
		time.Sleep(time.Duration(random.Int64N(int64(300 * time.Millisecond))))
		account, tag := random.IntN(accounts), "read"
		if random.IntN(5) == 0 {
			tag = "write"
		}
		id := fmt.Sprintf("%s.%d", name, n)
		ctx, end := context.WithTimeout(p.Context(), time.Duration(1+random.Int64N(20))*time.Second)
		if random.IntN(8) == 0 {
			p.addToTwo(ctx, account, id)
		} else if held, err := p.acquire(ctx, account, tag, random); err == nil {
			p.use(ctx, held, account, id, random)
		}
		end()
	}
}

// acquire takes the lock over from those in the way, once in so many times.
func (p *teller) acquire(ctx context.Context, account int, tag string, random *rand.Rand) (doclock.Lease, error) {
	if random.IntN(10) > 0 {
		return p.locks.Acquire(ctx, doclock.ID(account), tag)
	}
	held, err := p.locks.TryAcquire(ctx, doclock.ID(account), tag)
	var conflict *doclock.ConflictError
	if errors.As(err, &conflict) {
		if held, err = p.locks.TryAcquire(ctx, doclock.ID(account), tag, doclock.TakeOver(conflict.Holders...)); err == nil {
			p.counts.Seen(SeenTakenOver, 1)
		}
	}
	return held, err
}

// use makes transactions under a lease, which is converted, and goes from teller to teller, in between.
func (p *teller) use(ctx context.Context, held doclock.Lease, account int, id string, random *rand.Rand) {
	work := ctx
	if random.IntN(2) == 0 {
		work = held.KeepAlive(ctx)
	}
	for k := range 1 + random.IntN(3) {
		if held.Tag() == "read" {
			p.add(work, held, fmt.Sprintf("%s.%d", id, k), account)
		} else {
			p.close(work, held, account)
		}
		switch random.IntN(10) {
		case 0:
			if other, err := held.Convert(ctx, []string{"read", "write"}[random.IntN(2)]); err == nil {
				held, work = other, ctx
				p.counts.Seen(SeenConverted, 1)
			}
		case 1:
			token, _ := held.Detach(ctx)
			if token == "" {
				continue
			}
			if random.IntN(2) == 0 { // another user of the token
				random := rand.New(rand.NewPCG(random.Uint64(), 3))
				p.all.Go(func() {
					ctx, end := context.WithTimeout(p.Context(), 20*time.Second)
					defer end()
					p.resume(ctx, account, token, id+"'", random)
				})
			}
			p.resume(ctx, account, token, id+"+", random)
			return
		}
	}
	switch random.IntN(10) {
	case 0: // it is abandoned
	case 1:
		_ = held.UpdateAndRelease(ctx, bson.M{"$inc": bson.M{"n": 1}})
	default:
		_ = held.Release(ctx)
	}
}

// resume has any teller resume a lease, and use it.
func (p *teller) resume(ctx context.Context, account int, token, id string, random *rand.Rand) {
	p = p.tellers[random.IntN(len(p.tellers))]
	if held, err := p.locks.Resume(ctx, doclock.ID(account), token); err == nil {
		p.counts.Seen(SeenResumed, 1)
		p.use(ctx, held, account, id, random)
	}
}

// addToTwo adds an entry to the books of two accounts, or to none.
func (p *teller) addToTwo(ctx context.Context, account int, id string) {
	other := (account + 1) % accounts
	_ = multilock.DoAll(ctx, func(ctx context.Context, held multilock.Leases) error {
		p.add(ctx, held, id, account, other)
		return nil
	}, p.locks.Want(doclock.ID(account), "read"), p.locks.Want(doclock.ID(other), "read"))
}

// add adds an entry to each account's open book.
func (p *teller) add(ctx context.Context, held transactor, id string, accounts ...int) {
	err := held.WithTransaction(ctx, func(ctx context.Context) error {
		for _, account := range accounts {
			book, err := p.book(ctx, account)
			if err == nil {
				_, err = p.entries.InsertOne(ctx, bson.M{"_id": fmt.Sprint(id, "/", account), "account": account, "book": book})
			}
			if err != nil {
				return err
			}
		}
		return nil
	})
	for _, account := range accounts {
		p.tell(fmt.Sprint(id, "/", account), err)
	}
}

// transactor is a lease, or several.
type transactor interface {
	WithTransaction(context.Context, func(context.Context) error) error
}

// book is the number of the account's open one.
func (p *teller) book(ctx context.Context, account int) (int, error) {
	var now struct{ Book int }
	err := p.open.FindOne(ctx, bson.M{"_id": account}).Decode(&now)
	return now.Book, err
}

// close counts the entries of the account's open book, and opens the next one.
func (p *teller) close(ctx context.Context, held doclock.Lease, account int) {
	id := ""
	err := held.WithTransaction(ctx, func(ctx context.Context) error {
		book, err := p.book(ctx, account)
		if err != nil {
			return err
		}
		id = fmt.Sprintf("%d/%d", account, book)
		entries, err := p.entries.CountDocuments(ctx, bson.M{"account": account, "book": book})
		if err != nil {
			return err
		}
		if _, err := p.closed.InsertOne(ctx, bson.M{"_id": id, "entries": entries, "by": held.Fence()}); err != nil {
			return err
		}
		_, err = p.open.UpdateOne(ctx, bson.M{"_id": account}, bson.M{"$set": bson.M{"book": book + 1}})
		return err
	})
	if id != "" {
		p.tell(fmt.Sprintf("%s by %d", id, held.Fence()), err)
	}
}

// tell notes what a caller was told. Once it was committed, a later call can't have been of the same.
func (b *bank) tell(what string, err error) {
	b.lock.Lock()
	defer b.lock.Unlock()
	if known, told := b.told[what]; !told || known != nil && !errors.Is(known, doclock.ErrOutcomeUnknown) {
		b.told[what] = err
	}
}

// trouble makes faults until the run's end.
func (b *bank) trouble() {
	kinds := []locktest.Kind{locktest.Transactions, locktest.Acquires, locktest.Releases, locktest.Others}
	for time.Now().Before(b.until) {
		time.Sleep(time.Duration(b.random.Int64N(int64(2 * time.Second))))
		p, n, only := b.tellers[b.random.IntN(len(b.tellers))], 1+b.random.IntN(3), kinds[b.random.IntN(len(kinds))]
		switch b.random.IntN(9) {
		case 0:
			b.mem.LoseReplies(n, only)
		case 1:
			b.mem.LoseRequests(n, only)
		case 2:
			b.mem.Delay(n, time.Duration(b.random.Int64N(int64(30*time.Second))), only)
		case 3, 4:
			b.mem.Cut(p.client)
			time.Sleep(time.Duration(b.random.Int64N(int64(8 * time.Second))))
			b.mem.Reconnect(p.client)
		case 5:
			if b.members {
				b.mem.StepDown()
			}
		case 6:
			if b.members {
				b.mem.Isolate(b.mem.Primary())
				time.Sleep(time.Duration(b.random.Int64N(int64(8 * time.Second))))
				b.mem.Heal()
			}
		case 7:
			b.breakAll()
		default:
			b.mem.Fail(n, mongo.CommandError{Code: 112, Name: "WriteConflict", Message: "conflict", Labels: []string{"TransientTransactionError"}}, locktest.Transactions)
		}
	}
	b.mem.LoseReplies(0)
	b.mem.LoseRequests(0)
	b.mem.Delay(0, 0)
	b.mem.Fail(0, mongo.CommandError{})
}

// breakAll breaks what entries there are.
func (b *bank) breakAll() {
	ctx, cancel := context.WithTimeout(b.Context(), 10*time.Second)
	defer cancel()
	for e, err := range admin.Entries(ctx, b.mem.Collection("accounts"), admin.Query{Only: admin.Live}) {
		if err != nil {
			return
		}
		if _, err := admin.Break(ctx, b.mem.Collection("accounts"), e); err == nil {
			b.counts.Seen(SeenBroken, 1)
		}
	}
}

// check compares what is there with what was counted, and with what was told.
func (b *bank) check(seed uint64) {
	time.Sleep(5 * time.Minute) // what is late has come
	var entries []struct {
		ID            string `bson:"_id"`
		Account, Book int
	}
	var closed []struct {
		ID      string `bson:"_id"`
		Entries int
		By      int64
	}
	b.read("entries", &entries)
	b.read("closed", &closed)
	there, books := map[string]bool{}, map[string]int{}
	for _, e := range entries {
		there[e.ID] = true
		books[fmt.Sprintf("%d/%d", e.Account, e.Book)]++
	}
	for _, c := range closed {
		there[fmt.Sprintf("%s by %d", c.ID, c.By)] = true
		b.counts.Checked(BooksAreRight, 1)
		if books[c.ID] != c.Entries {
			b.counts.Violated(BooksAreRight, "seed %d: book %s was closed with %d entries, and has %d", seed, c.ID, c.Entries, books[c.ID])
		}
	}
	for what, err := range b.told {
		unknown := errors.Is(err, doclock.ErrOutcomeUnknown)
		b.counts.Checked(ToldIsTrue, 1)
		switch {
		case unknown:
			b.counts.Seen(SeenUndecided, 1)
		case err == nil:
			b.counts.Seen(SeenCommitted, 1)
		default:
			b.counts.Seen(SeenNone, 1)
		}
		if !unknown && there[what] != (err == nil) {
			b.counts.Violated(ToldIsTrue, "seed %d: %s: told %v, and it is there: %t", seed, what, err, there[what])
		}
		delete(there, what)
	}
	for what := range there {
		if !strings.Contains(what, " by ") { // the name of a book that was closed twice by one lease is overwritten
			b.counts.Violated(ToldIsTrue, "seed %d: %s is there, and nobody was told", seed, what)
		}
	}
}

func (b *bank) read(collection string, docs any) {
	found, err := b.mem.Collection(collection).Find(context.Background(), bson.M{})
	if err == nil {
		err = found.All(context.Background(), docs)
	}
	if err != nil {
		b.Fatal(err)
	}
}
