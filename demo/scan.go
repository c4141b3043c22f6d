package main

import (
	"context"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// A finding is what a full scan of the address book has found.
type finding struct {
	References int    `json:"references"` // ids of categories on contacts
	Dangling   int    `json:"dangling"`   // those of categories that don't exist
	Example    string `json:"example,omitempty"`
}

func (f finding) dangling() string {
	switch f.Dangling {
	case 0:
		return "no dangling reference"
	case 1:
		return "1 dangling reference"
	default:
		return fmt.Sprintf("%d dangling references", f.Dangling)
	}
}

// scan reads all categories and all contacts, and holds them against each other. Nobody may be at work.
func (b *book) scan(ctx context.Context) (finding, error) {
	var categories []Category
	if err := readAll(ctx, b.categories, &categories); err != nil {
		return finding{}, fmt.Errorf("scanning the categories: %w", err)
	}
	var contacts []Contact
	if err := readAll(ctx, b.contacts, &contacts); err != nil {
		return finding{}, fmt.Errorf("scanning the contacts: %w", err)
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

func compare(contacts []Contact, categories []Category) finding {
	exists := map[bson.ObjectID]bool{}
	for _, category := range categories {
		exists[category.ID] = true
	}
	var found finding
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
