// Package book has the two functions to copy: AddContact and DeleteCategory.
// Where the server has no transactions addOrUndo is in the place of AddContact.
package book

import (
	"context"
	"errors"
	"fmt"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A Book is an address book: each contact has the id of a category.
type Book struct {
	contacts, categories *mongo.Collection
	locks                *multilock.Locker // of the categories
}

// Open opens the collections "contacts" and "categories".
func Open(db *mongo.Database, opts ...doclock.Option) (*Book, error) {
	categories := db.Collection("categories")
	locks, err := multilock.New(categories, relations.WritePreferring(), opts...)
	return &Book{contacts: db.Collection("contacts"), categories: categories, locks: locks}, err
}

// AddContact inserts a contact of the category. It holds "read" on the
// category, so that nobody deletes the category until the contact is there, and
// inserts in a transaction that is committed meanwhile or never. After an error
// there is no contact. (After an [doclock.ErrOutcomeUnknown] there may be one,
// nobody was let in before it.) Where the server has no transactions it is
// addOrUndo, for two more commands: call that one if yours never has.
func (b *Book) AddContact(ctx context.Context, name string, category bson.ObjectID) error {
	contact := bson.M{"_id": bson.NewObjectID(), "name": name, "category": category}
	added := false
	err := b.locks.Do(ctx, doclock.ID(category), "read", func(ctx context.Context, lease doclock.Lease) error {
		err := lease.WithTransaction(ctx, func(ctx context.Context) error {
			_, err := b.contacts.InsertOne(ctx, contact)
			return err
		})
		added = err == nil
		return err
	})
	switch {
	case added:
		return nil // whatever has become of the lock since
	case errors.Is(err, doclock.ErrUnsupportedServer):
		return b.addOrUndo(ctx, contact)
	}
	return err
}

// addOrUndo inserts a contact on a server without transactions. After an error
// there is no contact, or the error says that one may be left. Two cases
// remain: the process is killed before the undo, or the network failed and the
// server executes the insert after the undo.
func (b *Book) addOrUndo(ctx context.Context, contact bson.M) error {
	id := contact["_id"] // new in each call: the compensation below deletes no other contact
	inserted := false
	err := b.locks.Do(ctx, doclock.ID(contact["category"]), "read", func(ctx context.Context, _ doclock.Lease) error {
		// The insert goes on if the lock is lost. It must have ended before it is undone.
		_, err := b.contacts.InsertOne(context.WithoutCancel(ctx), contact)
		inserted = err == nil
		return err
	})
	switch lost := errors.Is(err, doclock.ErrLost) || errors.Is(err, doclock.ErrOutcomeUnknown); {
	case errors.Is(err, doclock.ErrNotAcquired):
		return err // the function never ran, as for a deleted category
	case inserted && !lost:
		return nil // nobody was granted until the contact was there, also if the release failed
	}
	// The lock doesn't guard the contact. If it was lost, the insert may have come after
	// the category was deleted. If the insert failed, the contact may be there all the
	// same.
	if _, undo := b.contacts.DeleteOne(context.WithoutCancel(ctx), bson.M{"_id": id}); undo != nil {
		return fmt.Errorf("contact %s may be left: %w; %w", id, undo, err)
	}
	return err
}

// ErrInUse refuses to delete a category.
var ErrInUse = errors.New("a contact has this category")

// DeleteCategory deletes the category if no contact has it. It holds "write",
// so that nobody adds one after the check. It counts in a transaction: in a
// sharded cluster a plain read may not see yet what the last holder has committed.
func (b *Book) DeleteCategory(ctx context.Context, category bson.ObjectID) error {
	return b.locks.Do(ctx, doclock.ID(category), "write", func(ctx context.Context, lease doclock.Lease) error {
		var contacts int64
		count := func(ctx context.Context) (err error) {
			contacts, err = b.contacts.CountDocuments(ctx, bson.M{"category": category}) // give it an index
			return err
		}
		err := lease.WithTransaction(ctx, count)
		if errors.Is(err, doclock.ErrUnsupportedServer) {
			err = count(ctx)
		}
		switch {
		case err != nil:
			return err
		case contacts > 0:
			return ErrInUse
		default:
			return lease.Delete(ctx) // deletes only while the lock is held: there is nothing to undo
		}
	})
}

// Close waits until nothing is left to do for the locks.
func (b *Book) Close(ctx context.Context) error { return b.locks.Close(ctx) }
