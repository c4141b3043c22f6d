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

// An adder puts categories on contacts. It finds a category by its name, as a person does.
type adder struct {
	book  *book
	locks *multilock.Locker // of the categories
	work  time.Duration     // what the application does between its look at the category and its write
	write func(ctx context.Context, contact int, category bson.ObjectID) error
}

func newAdder(b *book, locks *multilock.Locker, work time.Duration) *adder {
	return &adder{book: b, locks: locks, work: work, write: b.addCategory}
}

// addWithoutLock looks whether the category is there, and then writes. The category can be deleted in between.
func (a *adder) addWithoutLock(ctx context.Context, contact int, name string) error {
	category, err := a.book.findCategory(ctx, name)
	if err != nil {
		return err
	}
	time.Sleep(a.work)
	return a.write(ctx, contact, category.ID)
}

// addWithLock reads the category and locks it in one command. A deleter waits until the lock is released.
func (a *adder) addWithLock(ctx context.Context, contact int, name string) error {
	var category Category
	err := a.locks.Do(ctx, bson.M{"name": name}, "read", func(ctx context.Context, _ *doclock.Lease) error {
		time.Sleep(a.work)
		// The write goes on if the lock is lost. It must have ended before it is compensated.
		return a.write(context.WithoutCancel(ctx), contact, category.ID)
	}, doclock.Into(&category))

	if errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown) {
		return a.compensate(ctx, contact, category.ID, err)
	}
	return err
}

// compensate is called after a lost lock, and removes the reference if it dangles. The lock guards the category's document. It
// can't stop a late write to another document, the contact, from a process that was stopped. By then a deleter may have got the
// lock, and may have gone through the contacts already.
//
// So the adder asks for a new lock. If the category is still there, any later deleter will find the id on the contact. If the
// category is gone, no deleter will, and the adder removes the id itself.
func (a *adder) compensate(ctx context.Context, contact int, category bson.ObjectID, lost error) error {
	err := a.locks.Do(ctx, bson.M{"_id": category}, "read", func(context.Context, *doclock.Lease) error { return nil })
	if !errors.Is(err, doclock.ErrNotFound) {
		return err
	}
	if err := a.book.removeCategory(ctx, contact, category); err != nil {
		return fmt.Errorf("a dangling reference may be left on contact %d: %w", contact, err)
	}
	return fmt.Errorf("taken back, for the category is gone: %w", lost)
}
