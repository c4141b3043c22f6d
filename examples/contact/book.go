package main

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

// A book is an address book: each contact has the id of a category.
type book struct {
	contacts, categories *mongo.Collection
	locks                *multilock.Locker // of the categories
}

func openBook(db *mongo.Database) (*book, error) {
	categories := db.Collection("categories")
	locks, err := multilock.New(categories, relations.WritePreferring())
	return &book{contacts: db.Collection("contacts"), categories: categories, locks: locks}, err
}

// addContact inserts a contact of the category. It holds "read" on the
// category, so that nobody deletes the category until the contact is there.
// After an error it has undone the insert, or the error says that it couldn't.
// Two cases remain: the process is killed before the undo, or the network
// failed and the server executes the insert after the undo.
func (b *book) addContact(ctx context.Context, name string, category bson.ObjectID) error {
	id := bson.NewObjectID() // new in each call: the compensation below deletes no other contact
	err := b.locks.Do(ctx, bson.M{"_id": category}, "read", func(ctx context.Context, _ *doclock.Lease) error {
		// The insert goes on if the lock is lost. It must have ended before it is undone.
		_, err := b.contacts.InsertOne(context.WithoutCancel(ctx), bson.M{"_id": id, "name": name, "category": category})
		return err
	})
	if err == nil || errors.Is(err, doclock.ErrNotAcquired) {
		return err // after ErrNotAcquired, as of a deleted category, nothing was inserted
	}
	// ErrLost, ErrOutcomeUnknown: the lock doesn't guard the contact, so the insert may
	// have come after the category was deleted. Any other error is the insert's, and the
	// contact may be there all the same.
	if _, undo := b.contacts.DeleteOne(context.WithoutCancel(ctx), bson.M{"_id": id}); undo != nil {
		return fmt.Errorf("contact %s may be left: %w; %w", id.Hex(), undo, err)
	}
	return err
}

var errInUse = errors.New("a contact has this category")

// deleteCategory deletes the category if no contact has it. It holds "write",
// so that nobody adds one after the check.
func (b *book) deleteCategory(ctx context.Context, category bson.ObjectID) error {
	return b.locks.Do(ctx, bson.M{"_id": category}, "write", func(ctx context.Context, lease *doclock.Lease) error {
		contacts, err := b.contacts.CountDocuments(ctx, bson.M{"category": category}) // give it an index
		switch {
		case err != nil:
			return err
		case contacts > 0:
			return errInUse
		default:
			return lease.Delete(ctx) // deletes only while the lock is held: there is nothing to undo
		}
	})
}
