package main

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A scanResult is what a full scan of the address book found.
type scanResult struct {
	References int    `json:"references"` // ids of categories on contacts
	Dangling   int    `json:"dangling"`   // those of categories that don't exist
	Example    string `json:"example,omitempty"`
}

func (f scanResult) summary() string {
	switch f.Dangling {
	case 0:
		return "no dangling reference"
	case 1:
		return "1 dangling reference"
	default:
		return fmt.Sprintf("%d dangling references", f.Dangling)
	}
}

// scan reads all categories and all contacts, and compares them. No adder or deleter may run meanwhile.
func (b *book) scan(ctx context.Context) (scanResult, error) {
	var categories []Category
	if err := readAll(ctx, b.categories, &categories); err != nil {
		return scanResult{}, fmt.Errorf("scanning the categories: %w", err)
	}
	var contacts []Contact
	if err := readAll(ctx, b.contacts, &contacts); err != nil {
		return scanResult{}, fmt.Errorf("scanning the contacts: %w", err)
	}
	return compare(contacts, categories), nil
}

func readAll(ctx context.Context, from *mongo.Collection, into any) error {
	cursor, err := from.Find(ctx, bson.M{})
	if err != nil {
		return err
	}
	return cursor.All(ctx, into)
}

func compare(contacts []Contact, categories []Category) scanResult {
	exists := map[bson.ObjectID]bool{}
	for _, category := range categories {
		exists[category.ID] = true
	}
	var found scanResult
	for _, contact := range contacts {
		for _, id := range contact.Categories {
			found.References++
			if exists[id] {
				continue
			}
			found.Dangling++
			if found.Example == "" {
				found.Example = fmt.Sprintf("%s <%s> is in category %s, which does not exist", contact.Name, contact.Email, id.Hex())
			}
		}
	}
	return found
}
