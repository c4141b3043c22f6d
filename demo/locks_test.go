package main

import (
	"context"
	"errors"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// newAdderAndDeleter makes a small book, and an adder and a deleter of it.
func newAdderAndDeleter(t *testing.T) (*book, *adder, *deleter) {
	t.Helper()
	b := openBook(mongotest.Database(t))
	if err := b.reset(t.Context(), people(1)[:3]); err != nil {
		t.Fatal(err)
	}
	locks, err := multilock.New(b.categories, relations.WritePreferring())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := locks.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b, newAdder(b, locks, 0), &deleter{book: b, locks: locks}
}

// late calls meanwhile between the adder's look and its write. The adder's lock is removed before, as after a stop of its process.
func late(t *testing.T, b *book, a *adder, meanwhile func()) {
	a.write = func(ctx context.Context, contact int, category bson.ObjectID) error {
		if _, err := b.categories.UpdateByID(ctx, category, bson.M{"$set": bson.M{"lock.tags": bson.M{}}}); err != nil {
			t.Error(err)
		}
		meanwhile()
		return b.addCategory(ctx, contact, category)
	}
}

func expectScan(t *testing.T, b *book, references, dangling int) {
	t.Helper()
	found, err := b.scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if found.References != references || found.Dangling != dangling {
		t.Errorf("a scan finds %+v, want %d references, %d of them dangling", found, references, dangling)
	}
}

func TestLateWriteIsTakenBack(t *testing.T) {
	b, a, d := newAdderAndDeleter(t)
	before, err := b.scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	name := newLateWriteJob(people(1)).Category
	category, err := b.findCategory(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	held, err := b.contacts.CountDocuments(t.Context(), bson.M{"categories": category.ID})
	if err != nil {
		t.Fatal(err)
	}
	late(t, b, a, func() {
		if err := d.deleteWithLock(t.Context(), name); err != nil {
			t.Error(err)
		}
	})
	if err := a.addWithLock(t.Context(), 0, name); !errors.Is(err, doclock.ErrLost) {
		t.Errorf("got %v, want ErrLost", err)
	}
	expectScan(t, b, before.References-int(held), 0)
}

func TestLateWriteIsKeptIfTheCategoryExists(t *testing.T) {
	b, a, _ := newAdderAndDeleter(t)
	before, err := b.scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	late(t, b, a, func() {})
	if err := a.addWithLock(t.Context(), 0, newLateWriteJob(people(1)).Category); err != nil {
		t.Errorf("got %v; the category is there, and the contact has it", err)
	}
	expectScan(t, b, before.References+1, 0)
}

func TestWithoutALockTheLateWriteDangles(t *testing.T) {
	b, a, d := newAdderAndDeleter(t)
	name := newLateWriteJob(people(1)).Category
	a.write = func(ctx context.Context, contact int, category bson.ObjectID) error {
		if err := d.deleteWithoutLock(ctx, name); err != nil {
			t.Error(err)
		}
		return b.addCategory(ctx, contact, category)
	}
	if err := a.addWithoutLock(t.Context(), 0, name); err != nil {
		t.Error(err)
	}
	found, err := b.scan(t.Context())
	if err != nil || found.Dangling != 1 || found.Example == "" {
		t.Errorf("a scan finds %+v, %v; want one dangling reference", found, err)
	}
}

func TestNoCategory(t *testing.T) {
	_, a, d := newAdderAndDeleter(t)
	var tally tally
	for name, err := range map[string]error{
		"add without lock":    a.addWithoutLock(t.Context(), 0, "Dentists"),
		"add with lock":       a.addWithLock(t.Context(), 0, "Dentists"),
		"delete without lock": d.deleteWithoutLock(t.Context(), "Dentists"),
		"delete with lock":    d.deleteWithLock(t.Context(), "Dentists"),
	} {
		if err := tally.count(&tally.added, err); err != nil {
			t.Errorf("%s: %v, want that there is no such category", name, err)
		}
	}
	if got := tally.counts(); got != (Counts{Gone: 4}) {
		t.Errorf("counted %+v, want 4 gone", got)
	}
}

// A deleter that has lost its lock deletes nothing: its delete has the guard in its filter.
func TestDeleterThatLostItsLockDeletesNothing(t *testing.T) {
	b, _, d := newAdderAndDeleter(t)
	var category Category
	lease, err := d.locks.Acquire(t.Context(), bson.M{"name": "Family"}, "write", doclock.Into(&category))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.categories.UpdateByID(t.Context(), category.ID, bson.M{"$set": bson.M{"lock.tags": bson.M{}}}); err != nil {
		t.Fatal(err)
	}
	if removed, err := b.deleteCategory(t.Context(), lease.Guard()); removed || err != nil {
		t.Errorf("removed %t, %v; want that nothing is", removed, err)
	}
	if err := lease.Release(t.Context()); !errors.Is(err, doclock.ErrLost) {
		t.Errorf("Release: %v, want ErrLost", err)
	}
}
