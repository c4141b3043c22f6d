package book

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

const ttl = 10 * time.Second

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// An application is several programs in virtual time, with an address book each. They
// are cut off from the locks, and from the contacts only where these are added in
// transactions, which are of one client.
type application struct {
	*testing.T
	mem          *locktest.Server
	db           *mongo.Database // without faults
	transactions bool

	mu         sync.Mutex
	categories []bson.ObjectID
	additions  []*error // of calls of AddContact, whose contacts have the numbers as names
	peace      bool
}

// newCategory inserts a category.
func (a *application) newCategory() bson.ObjectID {
	id := bson.NewObjectID()
	_, err := a.db.Collection("categories").InsertOne(context.Background(), doclock.ID(id))
	check(a.T, err)
	a.mu.Lock()
	defer a.mu.Unlock()
	a.categories = append(a.categories, id)
	return id
}

// program opens a book. Its inserts may come late, and each command for its locks may
// be the one whose request or reply meets a cut.
func (a *application) program() *Book {
	connect := func(monitor event.CommandMonitor) *mongo.Database {
		return a.mem.Connect(options.Client().SetMonitor(&monitor)).Database("test")
	}
	late := func(_ context.Context, e *event.CommandStartedEvent) {
		if name, _ := e.Command.Lookup("insert").StringValueOK(); name == "contacts" && rand.N(4) > 0 {
			time.Sleep(rand.N(25 * time.Second))
		}
	}
	var locked *mongo.Database
	locked = connect(event.CommandMonitor{
		Started: func(ctx context.Context, e *event.CommandStartedEvent) {
			late(ctx, e)
			a.cut(locked.Client(), 10)
		},
		Succeeded: func(context.Context, *event.CommandSucceededEvent) { a.cut(locked.Client(), 6) },
		Failed:    func(context.Context, *event.CommandFailedEvent) { a.cut(locked.Client(), 2) },
	})
	contacts := locked
	if !a.transactions {
		contacts = connect(event.CommandMonitor{Started: late})
	}
	b := &Book{contacts: contacts.Collection("contacts"), categories: locked.Collection("categories")}
	var err error
	b.locks, err = multilock.New(b.categories, relations.WritePreferring(), doclock.TTL(ttl))
	check(a.T, err)
	return b
}

// cut cuts a program off from the locks, once in so many times: for less than an
// attempt, than a TTL, for more, or for longer than a command waits for a server. A
// reply is lost, too.
func (a *application) cut(client *mongo.Client, rarity int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if rand.N(rarity) > 0 || a.peace {
		return
	}
	a.mem.LoseReplies(rand.N(2), locktest.Acquires, locktest.Renewals, locktest.Writes, locktest.Releases, locktest.CleanUps, locktest.Transactions)
	a.mem.Cut(client)
	time.AfterFunc(rand.N([]time.Duration{ttl / 3, ttl, 3 * ttl, 6 * ttl}[rand.N(4)]), func() { a.mem.Reconnect(client) })
}

// call adds a contact to one of the newest categories, or deletes a new category. Some
// callers give up.
func (a *application) call(b *Book) {
	ctx, giveUp := context.WithCancel(a.Context())
	defer giveUp()
	if rand.N(4) == 0 {
		time.AfterFunc(rand.N(2*ttl), giveUp)
	}
	if rand.N(3) == 0 {
		category := a.newCategory()
		time.Sleep(rand.N(2 * time.Second))
		_ = []func(context.Context, bson.ObjectID) error{b.DeleteCategory, b.purge}[rand.N(2)](ctx, category)
		return
	}
	a.mu.Lock()
	newest := a.categories[max(0, len(a.categories)-4):]
	category := newest[rand.N(len(newest))]
	ended, name := new(error), fmt.Sprint(len(a.additions))
	a.additions = append(a.additions, ended)
	a.mu.Unlock()
	*ended = b.AddContact(ctx, name, category)
}

// purge deletes a category with its contacts.
func (b *Book) purge(ctx context.Context, category bson.ObjectID) error {
	return b.locks.Do(ctx, doclock.ID(category), "write", func(ctx context.Context, lease doclock.Lease) error {
		if _, err := b.contacts.DeleteMany(ctx, bson.M{"category": category}); err != nil {
			return err
		}
		return lease.Delete(ctx)
	})
}

// run makes the calls, and lets all come to its end.
func (a *application) run(operations int) {
	const programs, callers = 4, 3
	var all sync.WaitGroup
	var books []*Book
	for range programs {
		b := a.program()
		books = append(books, b)
		for range callers {
			all.Go(func() {
				for range operations / (programs * callers) {
					a.call(b)
					time.Sleep(rand.N(time.Second))
				}
			})
		}
	}
	all.Wait()
	a.mu.Lock()
	a.peace = true
	a.mu.Unlock()
	a.mem.LoseReplies(0)
	time.Sleep(6 * ttl) // the cuts end
	for _, b := range books {
		check(a.T, b.Close(context.Background()))
	}
	synctest.Wait()
}

// Programs add contacts and delete categories while they are cut off from the locks at
// every step, for less and for more than a TTL. At the end no contact has a category
// that is deleted, and AddContact has told the truth.
func TestApplication(t *testing.T) {
	t.Run("standalone", func(t *testing.T) { t.Parallel(); testApplication(t, false) })
	t.Run("members", func(t *testing.T) { t.Parallel(); testApplication(t, true, locktest.ReplicaSet()) })
}

func testApplication(t *testing.T, transactions bool, opts ...locktest.Option) {
	synctest.Test(t, func(t *testing.T) {
		a := &application{T: t, mem: locktest.New(t, opts...), transactions: transactions}
		a.db = a.mem.Client().Database("test")
		a.newCategory()
		a.run(480)

		var contacts []struct {
			Name     string
			Category bson.ObjectID
		}
		cursor, err := a.db.Collection("contacts").Find(t.Context(), bson.M{})
		check(t, err)
		check(t, cursor.All(t.Context(), &contacts))
		there := map[string]bool{}
		for _, c := range contacts {
			there[c.Name] = true
			if err := a.db.Collection("categories").FindOne(t.Context(), doclock.ID(c.Category)).Err(); err != nil {
				t.Errorf("the category of contact %s: %v", c.Name, err)
			}
		}
		kept, without := 0, 0
		for i, ended := range a.additions {
			switch is, err := there[fmt.Sprint(i)], *ended; {
			case err == nil:
				kept++
			case is && !(transactions && errors.Is(err, doclock.ErrOutcomeUnknown)):
				t.Errorf("contact %d is there, and its caller was told: %v", i, err)
			case errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown):
				without++
			}
		}
		left, err := a.db.Collection("categories").CountDocuments(t.Context(), bson.M{})
		check(t, err)
		deleted := len(a.categories) - int(left)
		t.Logf("%d contacts, %d kept, %d without their lock, %d categories deleted", len(a.additions), kept, without, deleted)
		if min(kept, without, deleted) == 0 {
			t.Error("want at least one of each")
		}
	})
}

// The server refuses another contact of that name, and the undo leaves the first one alone.
func TestRefusedInsertDeletesNoOtherContact(t *testing.T) {
	b, err := Open(mongotest.Database(t))
	check(t, err)
	unique := mongo.IndexModel{Keys: bson.M{"name": 1}, Options: options.Index().SetUnique(true)}
	_, err = b.contacts.Indexes().CreateOne(t.Context(), unique)
	check(t, err)
	category := bson.NewObjectID()
	_, err = b.categories.InsertOne(t.Context(), doclock.ID(category))
	check(t, err)
	check(t, b.AddContact(t.Context(), "Ada", category))
	if err := b.AddContact(t.Context(), "Ada", category); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("AddContact: %v, want a duplicate key", err)
	}
	check(t, b.Close(t.Context()))
}
