package main

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A deleter deletes categories: it takes the id off all contacts first, so that none of them is left with it.
type deleter struct {
	book  *book
	locks *multilock.Locker // of the categories
}

// deleteWithoutLock leaves no reference behind, unless an adder that has looked before writes after.
func (d *deleter) deleteWithoutLock(ctx context.Context, name string) error {
	category, err := d.book.category(ctx, name)
	if err != nil {
		return err
	}
	if err := d.book.takeFromAll(ctx, category.ID); err != nil {
		return err
	}
	removed, err := d.book.remove(ctx, bson.M{"_id": category.ID})
	if err == nil && !removed {
		err = errNoCategory // another deleter was faster
	}
	return err
}

// deleteWithLock waits until no adder is at work on the category, and keeps new ones out.
func (d *deleter) deleteWithLock(ctx context.Context, name string) error {
	var category Category
	return d.locks.Do(ctx, bson.M{"name": name}, "write", func(ctx context.Context, lease *doclock.Lease) error {
		if err := d.book.takeFromAll(ctx, category.ID); err != nil {
			return err
		}
		return lease.Delete(ctx) // only if the lock is still held
	}, doclock.Into(&category))
}
