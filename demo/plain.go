package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/examples/contact/book"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A plainBook is the address book of examples/contact, without locks.
type plainBook struct{ contacts, categories *mongo.Collection }

func openPlain(database *mongo.Database) plainBook {
	return plainBook{database.Collection("contacts"), database.Collection("categories")}
}

// AddContact looks whether the category is there, and then inserts. The category can be deleted in between.
func (b plainBook) AddContact(ctx context.Context, name string, category bson.ObjectID) error {
	if err := b.categories.FindOne(ctx, doclock.ID(category)).Err(); err != nil {
		return err
	}
	_, err := b.contacts.InsertOne(ctx, bson.M{"name": name, "category": category})
	return err
}

// DeleteCategory looks whether a contact has the category, and then deletes it. A contact can be inserted in between.
func (b plainBook) DeleteCategory(ctx context.Context, category bson.ObjectID) error {
	contacts, err := b.contacts.CountDocuments(ctx, bson.M{"category": category})
	switch {
	case err != nil:
		return err
	case contacts > 0:
		return book.ErrInUse
	}
	_, err = b.categories.DeleteOne(ctx, doclock.ID(category))
	return err
}

// create creates a category. Ids begin with the time, to the nanosecond: the newest ones are easily found.
func (b plainBook) create(ctx context.Context) (category bson.ObjectID, err error) {
	category = bson.NewObjectID()
	binary.BigEndian.PutUint64(category[:], uint64(time.Now().UnixNano()))
	_, err = b.categories.InsertOne(ctx, doclock.ID(category))
	return category, err
}

// oneOfTheNewest is a category that was created lately. It may be deleted by now.
func (b plainBook) oneOfTheNewest(ctx context.Context) (category bson.ObjectID, err error) {
	var found []struct {
		ID bson.ObjectID `bson:"_id"`
	}
	if err := all(ctx, b.categories, &found, options.Find().SetSort(bson.M{"_id": -1}).SetLimit(6)); err != nil || len(found) == 0 {
		return category, errors.Join(err, mongo.ErrNoDocuments)
	}
	return found[rand.IntN(len(found))].ID, nil
}

// reset empties the address book.
func (b plainBook) reset(ctx context.Context) error {
	err := errors.Join(b.contacts.Drop(ctx), b.categories.Drop(ctx))
	if err == nil {
		_, err = b.contacts.Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.M{"category": 1}})
	}
	return err
}

// A scan is what a full scan of the address book found.
type scan struct {
	Contacts int
	Dangling int // contacts of categories that don't exist
	Example  string
}

// scan reads all categories and contacts. No adder or deleter may run meanwhile.
func (b plainBook) scan(ctx context.Context) (found scan, err error) {
	var categories []struct {
		ID bson.ObjectID `bson:"_id"`
	}
	var contacts []struct {
		Name     string
		Category bson.ObjectID
	}
	if err := errors.Join(all(ctx, b.categories, &categories), all(ctx, b.contacts, &contacts)); err != nil {
		return found, err
	}
	exists := map[bson.ObjectID]bool{}
	for _, category := range categories {
		exists[category.ID] = true
	}
	found.Contacts = len(contacts)
	for _, contact := range contacts {
		if !exists[contact.Category] {
			found.Dangling++
			found.Example = fmt.Sprintf("%s in category %s, which does not exist", contact.Name, contact.Category.Hex())
		}
	}
	return found, nil
}

func all(ctx context.Context, coll *mongo.Collection, documents any, opts ...options.Lister[options.FindOptions]) error {
	cursor, err := coll.Find(ctx, bson.M{}, opts...)
	if err != nil {
		return err
	}
	return cursor.All(ctx, documents)
}

func (s scan) String() string {
	if s.Dangling == 0 {
		return "no dangling reference"
	}
	return fmt.Sprintf("dangling references: %d, such as %s", s.Dangling, s.Example)
}
