package subjects

import (
	"context"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// openPlain is the floor: findOneAndUpdate {$inc} without any lock. Two of them
// are the least cost of an acquire and a release.
func openPlain(s *Subject) error {
	s.Increment = func(ctx context.Context, key string) error {
		return unlessDeadlocked(func() error {
			return s.Docs.FindOneAndUpdate(ctx, bson.M{"_id": key}, bson.M{"$inc": bson.M{"count": 1}}, onlyID).Err()
		})
	}
	s.Lock = func(ctx context.Context, key string) (Unlock, error) {
		return func(ctx context.Context) error { return s.Increment(ctx, key) }, s.Increment(ctx, key)
	}
	return nil
}

// openOptimistic is the version check: find, then findOneAndUpdate with the found
// version as a condition. If another client was faster, it begins again at
// once.
func openOptimistic(s *Subject) error {
	s.Increment = func(ctx context.Context, key string) error {
		for {
			doc, err := s.Read(ctx, key)
			if err != nil {
				return err
			}
			err = unlessDeadlocked(func() error {
				return s.Docs.FindOneAndUpdate(ctx, bson.M{"_id": key, "version": doc.Version},
					bson.M{"$set": bson.M{"count": doc.Count + 1, "version": doc.Version + 1}}, onlyID).Err()
			})
			if !none(err) {
				return err
			}
		}
	}
	return nil
}

// Document are the fields of a document that the subjects read.
type Document struct{ Count, Version int }

// Blank is a document that nobody has changed. Its 1,000 bytes are what most applications have.
func Blank(key any) bson.M {
	return bson.M{"_id": key, "count": 0, "version": 0, "text": strings.Repeat("x", 1000)}
}

// Make makes a document.
func (s *Subject) Make(ctx context.Context, key string) error {
	_, err := s.Docs.ReplaceOne(ctx, bson.M{"_id": key}, Blank(key), options.Replace().SetUpsert(true))
	return err
}

// Read finds a document.
func (s *Subject) Read(ctx context.Context, key string) (doc Document, err error) {
	return doc, s.Docs.FindOne(ctx, bson.M{"_id": key}).Decode(&doc)
}
