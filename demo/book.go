package main

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Contact is a document of the collection "contacts".
type Contact struct {
	ID         int             `bson:"_id"`
	Name       string          `bson:"name"`
	Email      string          `bson:"email"`
	Phone      string          `bson:"phone"`
	City       string          `bson:"city"`
	Categories []bson.ObjectID `bson:"categories"`
}

// Category is a document of the collection "categories". At most one has a given name at a time. A category that is deleted and
// created again has the same name and a new id.
type Category struct {
	ID   bson.ObjectID `bson:"_id"`
	Name string        `bson:"name"`
}

var errNoCategory = errors.New("no such category")

// book is the address book. It uses no locks. Each method is one command, except reset.
type book struct{ contacts, categories *mongo.Collection }

func openBook(database *mongo.Database) *book {
	return &book{contacts: database.Collection("contacts"), categories: database.Collection("categories")}
}

// findCategory finds a category by its name.
func (b *book) findCategory(ctx context.Context, name string) (found Category, err error) {
	err = b.categories.FindOne(ctx, bson.M{"name": name}).Decode(&found)
	if errors.Is(err, mongo.ErrNoDocuments) {
		err = errNoCategory
	}
	return found, err
}

// createCategory creates a category with a new id.
func (b *book) createCategory(ctx context.Context, name string) error {
	_, err := b.categories.InsertOne(ctx, Category{ID: bson.NewObjectID(), Name: name})
	return err
}

// deleteCategory deletes a category, and returns whether one matched the filter.
func (b *book) deleteCategory(ctx context.Context, filter any) (deleted bool, err error) {
	result, err := b.categories.DeleteOne(ctx, filter)
	if err != nil {
		return false, err
	}
	return result.DeletedCount > 0, nil
}

// addCategory puts a category's id on a contact.
func (b *book) addCategory(ctx context.Context, contact int, category bson.ObjectID) error {
	return unlessDeadlocked(func() error {
		_, err := b.contacts.UpdateByID(ctx, contact, bson.M{"$addToSet": bson.M{"categories": category}})
		return err
	})
}

// removeCategory takes a category's id off a contact.
func (b *book) removeCategory(ctx context.Context, contact int, category bson.ObjectID) error {
	return unlessDeadlocked(func() error {
		_, err := b.contacts.UpdateByID(ctx, contact, bson.M{"$pull": bson.M{"categories": category}})
		return err
	})
}

// removeCategoryFromAll takes a category's id off all contacts.
func (b *book) removeCategoryFromAll(ctx context.Context, category bson.ObjectID) error {
	return unlessDeadlocked(func() error {
		_, err := b.contacts.UpdateMany(ctx, bson.M{"categories": category}, bson.M{"$pull": bson.M{"categories": category}})
		return err
	})
}

// unlessDeadlocked repeats a write that the server aborted because of a deadlock. Such a write had no effect. MongoDB repeats it
// by itself; DocumentDB, on PostgreSQL, leaves that to its client.
func unlessDeadlocked(write func() error) error {
	const deadlockDetected, maxTries = 16908292, 10
	for try := 1; ; try++ {
		err := write()
		var failure mongo.ServerError
		if try == maxTries || !errors.As(err, &failure) || !failure.HasErrorCode(deadlockDetected) {
			return err
		}
	}
}

// reset empties the address book, and fills it with all categories and these people.
func (b *book) reset(ctx context.Context, people []person) error {
	for _, collection := range []*mongo.Collection{b.contacts, b.categories} {
		if err := collection.Drop(ctx); err != nil {
			return fmt.Errorf("emptying the address book: %w", err)
		}
	}
	ids := map[string]bson.ObjectID{}
	var categories []Category
	for _, name := range categoryNames {
		ids[name] = bson.NewObjectID()
		categories = append(categories, Category{ID: ids[name], Name: name})
	}
	contacts := make([]Contact, len(people))
	for i, p := range people {
		contacts[i] = Contact{ID: i, Name: p.name, Email: p.email, Phone: p.phone, City: p.city, Categories: []bson.ObjectID{}}
		for _, name := range p.categories {
			contacts[i].Categories = append(contacts[i].Categories, ids[name])
		}
	}
	if _, err := b.categories.InsertMany(ctx, categories); err != nil {
		return fmt.Errorf("filling in the categories: %w", err)
	}
	if _, err := b.contacts.InsertMany(ctx, contacts); err != nil {
		return fmt.Errorf("filling in the contacts: %w", err)
	}
	return nil
}
