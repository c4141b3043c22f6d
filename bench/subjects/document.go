package subjects

import (
	"context"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Small is the size of a document, in bytes, that most applications have.
const Small = 1000

// Document are the fields of a document that the subjects read.
type Document struct{ Count, Version int }

// Blank is a document that nobody has changed.
func Blank(key any, bytes int) bson.M {
	return bson.M{"_id": key, "count": 0, "version": 0, "text": strings.Repeat("x", bytes)}
}

// Make makes a document of about this many bytes.
func (s *Subject) Make(ctx context.Context, key string, bytes int) error {
	_, err := s.Docs.ReplaceOne(ctx, bson.M{"_id": key}, Blank(key, bytes), options.Replace().SetUpsert(true))
	return err
}

// Read finds a document.
func (s *Subject) Read(ctx context.Context, key string) (doc Document, err error) {
	return doc, s.Docs.FindOne(ctx, bson.M{"_id": key}).Decode(&doc)
}
