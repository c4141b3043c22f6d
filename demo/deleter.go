package main

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A deleter deletes categories. It takes the id off all contacts first, so that no contact keeps it.
type deleter struct {
	book  *book
	locks *multilock.Locker // of the categories
}

// deleteWithoutLock leaves a dangling reference where an adder looks before the category is deleted, and writes after the id was
// taken off all contacts.
func (d *deleter) deleteWithoutLock(ctx context.Context, name string) error {
	category, err := d.book.findCategory(ctx, name)
	if err != nil {
		return err
	}
	if err := d.book.removeCategoryFromAll(ctx, category.ID); err != nil {
		return err
	}
	deleted, err := d.book.deleteCategory(ctx, bson.M{"_id": category.ID})
	if err == nil && !deleted {
		err = errNoCategory // another deleter was faster
	}
	return err
}

// deleteWithLock keeps new adders away from the category, waits for the present ones, and then deletes it.
func (d *deleter) deleteWithLock(ctx context.Context, name string) error {
	var category Category
	return d.locks.Do(ctx, bson.M{"name": name}, "write", func(ctx context.Context, lease *doclock.Lease) error {
		if err := d.book.removeCategoryFromAll(ctx, category.ID); err != nil {
			return err
		}
		return lease.Delete(ctx) // only if the lock is still held
	}, doclock.Into(&category))
}
