package book

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"flag"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/history"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

var (
	operations = flag.Int("operations", 240, "how many additions and deletions TestApplication makes")
	first      = flag.Uint64("seed", 1, "what TestApplication draws from")
)

const (
	programs = 4
	callers  = 3 // of each program
	ttl      = 10 * time.Second
)

// addition is a call of AddContact, as the server and the observer saw it.
type addition struct {
	category bson.ObjectID
	granted  time.Time // zero: it was not
	waited   bool
	fence    int64
	lease    uuid.UUID
	ended    time.Time
	undone   bool
	err      error
}

type additionKey struct{}

// look is one of the looks at all locks: there is one after each command.
type look struct {
	number int
	at     time.Time
}

// letIn is a holder of "write" that the server has let in.
type letIn struct {
	fence int64
	seen  look
}

// application is several programs with an address book each, in virtual time. Their
// locks and their contacts are in two databases: the connections to the locks are cut,
// those to the contacts are not.
type application struct {
	*testing.T
	mem   *locktest.Server
	apart Book // without faults
	add   func(b *Book, ctx context.Context, name string, category bson.ObjectID) error

	mu         sync.Mutex
	rng        *rand.Rand
	peace      bool
	cut        map[*mongo.Client]bool
	categories []bson.ObjectID
	additions  []*addition
	writers    map[bson.ObjectID][]letIn
	looks      int
	expires    map[string]time.Time // the latest end of an entry's life
	sent       map[int64]bson.Raw   // commands for the locks, by request
	known      map[string]time.Time // the end of an entry's life as its holder was answered
	present    map[string]bool      // the entries, at the last look
	gone       map[string]look      // the first one without the entry
	released   map[string]bool      // the entries that their own holders removed, as the server answered
	seen       map[string]int
}

// newApplication makes it with some categories.
func newApplication(t *testing.T, seed uint64) *application {
	a := &application{
		T: t, mem: locktest.New(), add: (*Book).AddContact, rng: rand.New(rand.NewPCG(seed, 0)), cut: map[*mongo.Client]bool{},
		writers: map[bson.ObjectID][]letIn{}, expires: map[string]time.Time{}, present: map[string]bool{},
		gone: map[string]look{}, sent: map[int64]bson.Raw{}, known: map[string]time.Time{}, released: map[string]bool{}, seen: map[string]int{},
	}
	db := a.mem.Client().Database("test")
	a.apart = Book{contacts: db.Collection("contacts"), categories: db.Collection("categories")}
	for range 3 {
		a.categories = append(a.categories, a.apart.newCategory(t))
	}
	return a
}

// program opens a book whose locks' connections are cut now and then.
func (a *application) program() *Book {
	var locks *mongo.Client
	connect := func(monitor *event.CommandMonitor) *mongo.Client {
		client, err := a.mem.Connect(options.Client().SetMonitor(monitor))
		if err != nil {
			a.Fatal(err)
		}
		return client
	}
	contacts := connect(&event.CommandMonitor{Started: func(ctx context.Context, e *event.CommandStartedEvent) { a.touch(ctx, e.CommandName) }})
	locks = connect(&event.CommandMonitor{
		Started: func(_ context.Context, e *event.CommandStartedEvent) { a.before(locks, e) },
		Succeeded: func(_ context.Context, e *event.CommandSucceededEvent) {
			a.after(locks, e.CommandFinishedEvent, "cut after a reply", 15)
			a.answered(e)
		},
		Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			a.after(locks, e.CommandFinishedEvent, "cut with a reply", 2)
		},
	})
	b := &Book{contacts: contacts.Database("test").Collection("contacts"), categories: locks.Database("test").Collection("categories")}
	var err error
	if b.locks, err = multilock.New(b.categories, relations.WritePreferring(), doclock.TTL(ttl), doclock.OnEvent(a.hear)); err != nil {
		a.Fatal(err)
	}
	return b
}

// hear is the observer of all programs.
func (a *application) hear(ctx context.Context, e doclock.Event) {
	if of, is := ctx.Value(additionKey{}).(*addition); is && e.Kind == doclock.EventGranted {
		a.mu.Lock()
		defer a.mu.Unlock()
		of.granted, of.waited, of.fence, of.lease = e.Time, e.Waited > 0, e.Fence, e.LeaseID
	}
}

// one reports true once in n times.
func (a *application) one(n int) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.rng.IntN(n) == 0
}

func (a *application) upTo(most time.Duration) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	return time.Duration(a.rng.Int64N(int64(most)))
}

// touch is called before a command for the contacts. An insert may come late.
func (a *application) touch(ctx context.Context, name string) {
	of, is := ctx.Value(additionKey{}).(*addition)
	switch {
	case is && name == "insert" && a.one(3):
		time.Sleep(a.upTo(25 * time.Second))
	case is && name == "delete":
		a.mu.Lock()
		defer a.mu.Unlock()
		of.undone = true
	}
}

// before is called before a command for the locks. The connections may break before
// the server gets it, or before its reply comes.
func (a *application) before(client *mongo.Client, e *event.CommandStartedEvent) {
	a.mu.Lock()
	a.sent[e.RequestID] = slices.Clone(e.Command)
	a.mu.Unlock()
	switch {
	case e.CommandName == "ping":
	case a.one(20):
		a.cutFor(client, "cut with a request")
	case a.one(20) && !a.peaceful():
		a.mem.LoseReplies(1, locktest.Acquires, locktest.Renewals, locktest.Writes, locktest.Releases, locktest.CleanUps)
	}
}

// after is called when a command for the locks was executed, or was not: a look at all
// locks, and perhaps a cut.
func (a *application) after(client *mongo.Client, e event.CommandFinishedEvent, why string, rarity int) {
	if e.CommandName == "ping" {
		return
	}
	a.look()
	if a.one(rarity) {
		a.cutFor(client, why)
	}
}

// answered notes the lives of the entries that an answered command names: of a renewal
// without an answer the holder knows nothing, and of one of several that did not match
// all it knows little.
func (a *application) answered(e *event.CommandSucceededEvent) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sent := a.sent[e.RequestID]
	delete(a.sent, e.RequestID)
	updates, _ := sent.Lookup("updates").ArrayOK()
	statements, _ := updates.Values()
	if n, ok := e.Reply.Lookup("n").AsInt64OK(); ok && n < int64(len(statements)) {
		return
	}
	for id := range a.expires {
		switch raw, err := hex.DecodeString(id); {
		case err != nil || !bytes.Contains(sent, raw):
		case a.present[id]:
			a.known[id] = a.expires[id]
		case len(statements) > 0 || e.Reply.Lookup("value").Type == bson.TypeEmbeddedDocument:
			a.released[id] = true
		}
	}
}

func (a *application) peaceful() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.peace
}

// lengths of cuts: shorter than an attempt, than the TTL, longer than it, and longer
// than a command waits for a server.
var lengths = []struct {
	name        string
	least, most time.Duration
}{
	{"shorter than an attempt", 0, ttl / 3},
	{"shorter than the TTL", ttl / 3, ttl},
	{"longer than the TTL", ttl, 3 * ttl},
	{"longer than a command waits", 3 * ttl, 6 * ttl},
}

// cutFor cuts a client off for a while.
func (a *application) cutFor(client *mongo.Client, why string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.peace || a.cut[client] {
		return
	}
	length := lengths[a.rng.IntN(len(lengths))]
	a.seen[why]++
	a.seen[length.name]++
	a.cut[client] = true
	if err := a.mem.Cut(client, errors.New("the cable is out")); err != nil {
		a.Error(err)
	}
	time.AfterFunc(length.least+time.Duration(a.rng.Int64N(int64(length.most-length.least))), func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if err := a.mem.Cut(client, nil); err != nil {
			a.Error(err)
		}
		a.cut[client] = false
	})
}

// look records, from the documents themselves, who is let in, and who has left.
func (a *application) look() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.looks++
	now, were := look{a.looks, time.Now()}, a.present
	a.present = map[string]bool{}
	cursor, err := a.apart.categories.Find(context.Background(), bson.M{"lock": bson.M{"$exists": true}})
	if err != nil {
		a.Error(err)
		return
	}
	for cursor.Next(context.Background()) {
		category := cursor.Current.Lookup("_id").ObjectID()
		for _, e := range history.ReadImage(cursor.Current).Entries {
			a.present[e.ID] = true
			if end := time.UnixMilli(e.Expires); end.After(a.expires[e.ID]) {
				a.expires[e.ID] = end
			}
			known := slices.ContainsFunc(a.writers[category], func(w letIn) bool { return w.fence == e.Fence })
			if e.Tag == "write" && e.Fence != 0 && !known {
				a.writers[category] = append(a.writers[category], letIn{e.Fence, now})
			}
		}
	}
	for id := range were {
		if !a.present[id] {
			a.gone[id] = now
		}
	}
}

// category draws one that was there a moment ago.
func (a *application) category() bson.ObjectID {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.categories[a.rng.IntN(len(a.categories))]
}

// call makes one addition or deletion.
func (a *application) call(b *Book) {
	ctx, cancel := context.WithCancel(a.Context())
	defer cancel()
	if a.one(4) { // the caller gives up
		time.AfterFunc(a.upTo(2*ttl), cancel)
	}
	category := a.category()
	var err error
	switch {
	case !a.one(3):
		of := &addition{category: category}
		of.err = a.add(b, context.WithValue(ctx, additionKey{}, of), "Ada", category)
		of.ended = time.Now()
		a.mu.Lock()
		a.additions = append(a.additions, of)
		a.mu.Unlock()
		return
	case a.one(2):
		err = b.DeleteCategory(ctx, category)
	default:
		err = b.purge(ctx, category)
	}
	if err == nil || errors.Is(err, doclock.ErrNotFound) || errors.Is(err, doclock.ErrOutcomeUnknown) || errors.Is(err, doclock.ErrLost) {
		a.replace(category)
	}
}

// purge deletes a category with its contacts.
func (b *Book) purge(ctx context.Context, category bson.ObjectID) error {
	return b.locks.Do(ctx, bson.M{"_id": category}, "write", func(ctx context.Context, lease *doclock.Lease) error {
		if _, err := b.contacts.DeleteMany(ctx, bson.M{"category": category}); err != nil {
			return err
		}
		return lease.Delete(ctx)
	})
}

// replace puts a new category in the place of one that is deleted.
func (a *application) replace(category bson.ObjectID) {
	if n, err := a.apart.categories.CountDocuments(context.Background(), bson.M{"_id": category}); n > 0 || err != nil {
		return
	}
	next := a.apart.newCategory(a.T)
	a.mu.Lock()
	defer a.mu.Unlock()
	if i := slices.Index(a.categories, category); i >= 0 {
		a.categories[i] = next
		a.seen["deleted"]++
	}
}

// run makes the calls, and lets all come to its end.
func (a *application) run(operations int) {
	a.mu.Lock()
	a.peace = false
	a.mu.Unlock()
	var all sync.WaitGroup
	var books []*Book
	for range programs {
		b := a.program()
		books = append(books, b)
		for range callers {
			all.Go(func() {
				for range operations / (programs * callers) {
					a.call(b)
					time.Sleep(a.upTo(time.Second))
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
		if err := b.locks.Close(context.Background()); err != nil {
			a.Error(err)
		}
	}
	synctest.Wait()
}

// dangling are the contacts whose categories are deleted.
func (a *application) dangling() (n int) {
	var contacts []struct{ Category bson.ObjectID }
	cursor, err := a.apart.contacts.Find(context.Background(), bson.M{})
	if err == nil {
		err = cursor.All(context.Background(), &contacts)
	}
	if err != nil {
		a.Fatal(err)
	}
	for _, c := range contacts {
		if categories, _ := a.apart.count(a.T, c.Category); categories == 0 {
			n++
		}
	}
	return n
}

// letIn says that the server has let in a writer between the grant of the addition and
// the end of its lease: before its entry was gone, or by the command that found it expired.
// A release may find its entry expired, too, and hand the lock over to a writer: then the same look shows both.
func (a *application) letIn(of *addition) bool {
	id := hex.EncodeToString(of.lease[:])
	gone, is := a.gone[id]
	expired := is && !a.expires[id].After(gone.at)
	return slices.ContainsFunc(a.writers[of.category], func(w letIn) bool {
		return w.fence > of.fence && !w.seen.at.After(of.ended) && (!is || w.seen.number < gone.number || expired && !a.released[id] && w.seen.number == gone.number)
	})
}

// judge counts what became of the additions, and reports each that was undone without
// need, or not undone. The program knows the end of its lease to within an attempt. One whose lease was over when the call ended may be undone: the
// program can't know that nobody was let in.
func (a *application) judge() {
	for _, of := range a.additions {
		end := a.known[hex.EncodeToString(of.lease[:])]
		switch in := a.letIn(of); {
		case of.granted.IsZero():
			a.seen["not acquired"]++
		case !of.undone && in:
			a.Errorf("granted at %v, ended at %v, not undone, though a writer was let in: %v", of.granted, of.ended, of.err)
		case !of.undone:
			a.seen["kept"]++
		case in:
			a.seen["undone after a writer"]++
		case !of.waited && end.After(of.ended.Add(ttl/2)): // one that was handed over counts from the handoff's first attempt
			a.Errorf("granted at %v, ended at %v, undone, though nobody was let in, and the lease lived until %v: %v", of.granted, of.ended, end, of.err)
		default:
			a.seen["undone after its time"]++
		}
	}
}

// Adders and deleters of few categories work through programs that are cut off from the
// locks at every step, for less and for more than the TTL. At the end no contact has a
// category that is deleted, and none was undone that was safe.
func TestApplication(t *testing.T) {
	seed := *first
	synctest.Test(t, func(t *testing.T) {
		a := newApplication(t, seed)
		a.run(*operations)
		a.judge()
		if n := a.dangling(); n > 0 {
			t.Errorf("%d contacts have categories that are deleted", n)
		}
		floors := []string{"kept", "not acquired", "undone after a writer", "deleted", "cut with a request", "cut with a reply", "cut after a reply"}
		for _, length := range lengths {
			floors = append(floors, length.name)
		}
		for _, name := range floors {
			if a.seen[name] < *operations/300 {
				t.Errorf("%q: %d, want at least %d", name, a.seen[name], *operations/300)
			}
		}
		t.Logf("seed %d, %d contacts:", seed, len(a.additions))
		for _, name := range slices.Sorted(maps.Keys(a.seen)) {
			t.Logf("%6d %s", a.seen[name], name)
		}
	})
}

// The test sees contacts of deleted categories if nothing is taken back.
func TestApplicationWithoutCompensation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newApplication(t, 1)
		a.add = func(b *Book, ctx context.Context, name string, category bson.ObjectID) error {
			return b.locks.Do(ctx, bson.M{"_id": category}, "read", func(ctx context.Context, _ *doclock.Lease) error {
				_, err := b.contacts.InsertOne(context.WithoutCancel(ctx), bson.M{"name": name, "category": category})
				return err
			})
		}
		for range 40 {
			if a.run(48); a.dangling() > 0 {
				return
			}
		}
		t.Error("no contact has a deleted category, though none was undone: the test proves nothing")
	})
}
