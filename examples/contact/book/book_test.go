package book

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) { mongotest.Main(m) }

func open(t *testing.T, db *mongo.Database) *Book {
	t.Helper()
	b, err := Open(db)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *Book) newCategory(t *testing.T) bson.ObjectID {
	t.Helper()
	id := bson.NewObjectID()
	if _, err := b.categories.InsertOne(t.Context(), bson.M{"_id": id}); err != nil {
		t.Fatal(err)
	}
	return id
}

// count counts a category, which is 0 or 1, and its contacts.
func (b *Book) count(t *testing.T, category bson.ObjectID) (categories, contacts int64) {
	t.Helper()
	categories, err := b.categories.CountDocuments(t.Context(), bson.M{"_id": category})
	if err != nil {
		t.Fatal(err)
	}
	contacts, err = b.contacts.CountDocuments(t.Context(), bson.M{"category": category})
	if err != nil {
		t.Fatal(err)
	}
	return categories, contacts
}

// Adders and deleters of one category start together, or one kind starts a
// little earlier. The two books wait for each other through the server only, as
// two processes do.
func TestNoContactOfADeletedCategory(t *testing.T) {
	db := mongotest.Database(t)
	books := []*Book{open(t, db), open(t, db)}
	var kept, deleted int
	for round := range 30 {
		category := books[0].newCategory(t)
		headStart := time.Duration(round%3-1) * 20 * time.Millisecond // of the deleters
		addErrs, deleteErrs := make([]error, 4), make([]error, 2)
		var callers sync.WaitGroup
		for i := range addErrs {
			callers.Go(func() {
				time.Sleep(headStart)
				addErrs[i] = books[i%2].AddContact(t.Context(), "Ada", category)
			})
		}
		for i := range deleteErrs {
			callers.Go(func() {
				time.Sleep(-headStart)
				deleteErrs[i] = books[i%2].DeleteCategory(t.Context(), category)
			})
		}
		callers.Wait()

		var added int64
		for _, err := range addErrs {
			if err == nil {
				added++
			} else if !errors.Is(err, doclock.ErrNotFound) {
				t.Errorf("AddContact: %v", err)
			}
		}
		gone := false
		for _, err := range deleteErrs {
			if err == nil {
				gone = true
			} else if !errors.Is(err, ErrInUse) && !errors.Is(err, doclock.ErrNotFound) {
				t.Errorf("DeleteCategory: %v", err)
			}
		}
		categories, contacts := books[0].count(t, category)
		if contacts != added || gone != (categories == 0) || gone == (contacts > 0) {
			t.Errorf("round %d: %d categories and %d contacts; added %d, deleted %t", round, categories, contacts, added, gone)
		}
		if gone {
			deleted++
		} else {
			kept++
		}
	}
	t.Logf("%d categories kept, %d deleted", kept, deleted)
	if kept == 0 || deleted == 0 {
		t.Errorf("%d categories kept and %d deleted: one order never happened", kept, deleted)
	}
}

// onInsert is a book that calls f just before it sends an insert.
func onInsert(t *testing.T, db *mongo.Database, f func()) *Book {
	t.Helper()
	client := mongotest.Client(t, options.Client().SetMonitor(&event.CommandMonitor{
		Started: func(_ context.Context, command *event.CommandStartedEvent) {
			if command.CommandName == "insert" {
				f()
			}
		},
	}))
	return open(t, client.Database(db.Name()))
}

// The adder's lock is gone when it inserts, as after a stop of its process, and
// the category is deleted.
func TestLateInsertIsUndone(t *testing.T) {
	db := mongotest.Database(t)
	b := open(t, db)
	category := b.newCategory(t)
	late := onInsert(t, db, func() {
		if _, err := b.categories.UpdateByID(t.Context(), category, bson.M{"$set": bson.M{"lock.tags": bson.M{}}}); err != nil {
			t.Error(err)
		}
		if err := b.DeleteCategory(t.Context(), category); err != nil {
			t.Error(err)
		}
	})
	if err := late.AddContact(t.Context(), "Ada", category); !errors.Is(err, doclock.ErrLost) {
		t.Errorf("AddContact: %v, want ErrLost", err)
	}
	if categories, contacts := b.count(t, category); categories != 0 || contacts != 0 {
		t.Errorf("%d categories and %d contacts, want none", categories, contacts)
	}
}

// A caller that gives up during the insert hears how the insert ended.
func TestCallerGivesUpDuringTheInsert(t *testing.T) {
	db := mongotest.Database(t)
	b := open(t, db)
	category := b.newCategory(t)
	ctx, giveUp := context.WithCancel(t.Context())
	defer giveUp()
	if err := onInsert(t, db, giveUp).AddContact(ctx, "Ada", category); err != nil {
		t.Errorf("AddContact: %v; the contact was inserted under the lock", err)
	}
	if _, contacts := b.count(t, category); contacts != 1 {
		t.Errorf("%d contacts, want 1", contacts)
	}
}

// The server refuses an insert: another contact with the name is left alone.
func TestRefusedInsertDeletesNoOtherContact(t *testing.T) {
	b := open(t, mongotest.Database(t))
	unique := mongo.IndexModel{Keys: bson.M{"name": 1}, Options: options.Index().SetUnique(true)}
	if _, err := b.contacts.Indexes().CreateOne(t.Context(), unique); err != nil {
		t.Fatal(err)
	}
	category := b.newCategory(t)
	if err := b.AddContact(t.Context(), "Ada", category); err != nil {
		t.Fatal(err)
	}
	if err := b.AddContact(t.Context(), "Ada", category); !mongo.IsDuplicateKeyError(err) {
		t.Errorf("AddContact: %v, want a duplicate key", err)
	}
	if _, contacts := b.count(t, category); contacts != 1 {
		t.Errorf("%d contacts, want 1", contacts)
	}
}

func TestNoCategory(t *testing.T) {
	b := open(t, mongotest.Database(t))
	for name, err := range map[string]error{
		"AddContact":     b.AddContact(t.Context(), "Ada", bson.NewObjectID()),
		"DeleteCategory": b.DeleteCategory(t.Context(), bson.NewObjectID()),
	} {
		if !errors.Is(err, doclock.ErrNotFound) {
			t.Errorf("%s: %v, want ErrNotFound", name, err)
		}
	}
}
