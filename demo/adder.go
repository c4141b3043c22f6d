package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// An adder puts categories on contacts. It knows a category by its name, as a person does.
type adder struct {
	book  *book
	locks *multilock.Locker // of the categories
	work  time.Duration     // what the application does between its look at the category and its write
	put   func(ctx context.Context, contact int, category bson.ObjectID) error
}

func newAdder(b *book, locks *multilock.Locker, work time.Duration) *adder {
	return &adder{book: b, locks: locks, work: work, put: b.put}
}

// addWithoutLock is how one writes it at first: look whether the category is there, and then write. In between it can be
// deleted.
func (a *adder) addWithoutLock(ctx context.Context, contact int, name string) error {
	category, err := a.book.category(ctx, name)
	if err != nil {
		return err
	}
	time.Sleep(a.work)
	return a.put(ctx, contact, category.ID)
}

// addWithLock looks by taking the lock, in one command, and holds the category still until it has written.
func (a *adder) addWithLock(ctx context.Context, contact int, name string) error {
	var category Category
	err := a.locks.Do(ctx, bson.M{"name": name}, "read", func(ctx context.Context, _ *doclock.Lease) error {
		time.Sleep(a.work)
		return a.put(ctx, contact, category.ID)
	}, doclock.Into(&category))

	if errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown) {
		return a.settle(ctx, contact, category.ID, err)
	}
	return err
}

// settle puts right what an adder did whose lock was lost. The lock guards the category's document; it can't stop a write to
// another one, the contact, that comes late, from a process that was paused. By then a deleter may have been let in, and
// have gone through the contacts already.
//
// So the adder asks again, under a new lock. If the category is still there, whoever deletes it will find the id. If it is
// gone, nobody will, and the adder takes the id off itself. (If there never was a lock, there is no id, and this does nothing.)
func (a *adder) settle(ctx context.Context, contact int, category bson.ObjectID, lost error) error {
	err := a.locks.Do(ctx, bson.M{"_id": category}, "read", func(context.Context, *doclock.Lease) error { return nil })
	if !errors.Is(err, doclock.ErrNotFound) {
		return err
	}
	if err := a.book.take(ctx, contact, category); err != nil {
		return fmt.Errorf("a dangling reference may be left on contact %d: %w", contact, err)
	}
	return fmt.Errorf("taken back, for the category is gone: %w", lost)
}
