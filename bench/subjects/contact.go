package subjects

import (
	"context"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Contacts is the collection of those that Add adds. Each is of a category, which is a document.
func (s *Subject) Contacts() *mongo.Collection { return s.others("contacts of " + s.Name) }

// MakeContacts makes the collection, with its index.
func (s *Subject) MakeContacts(ctx context.Context) error {
	_, err := s.Contacts().Indexes().CreateOne(ctx, mongo.IndexModel{Keys: bson.D{{Key: "category", Value: 1}}})
	return err
}

func (s *Subject) insertContact(ctx context.Context, category string) error {
	_, err := s.Contacts().InsertOne(ctx, bson.M{"category": category, "name": "Ada"})
	return err
}

// openTouch is what one writes without a lock: a transaction that changes the category, so that nobody deletes it
// meanwhile. The driver runs it again after a write conflict with another adder.
//
//	updateOne   {_id} {$inc: {count: 1}}
//	insert
//	commitTransaction
func openTouch(s *Subject) error {
	s.Add = func(ctx context.Context, category string) error {
		return s.Client.UseSession(ctx, func(ctx context.Context) error {
			_, err := mongo.SessionFromContext(ctx).WithTransaction(ctx, func(ctx context.Context) (any, error) {
				touched, err := s.Docs.UpdateOne(ctx, bson.M{"_id": category}, bson.M{"$inc": bson.M{"count": 1}})
				if err == nil && touched.MatchedCount == 0 {
					err = mongo.ErrNoDocuments
				}
				if err != nil {
					return nil, err
				}
				return nil, s.insertContact(ctx, category)
			})
			return err
		})
	}
	return nil
}

// openAdd adds under a read lock of the category: by a plain insert, which a loss has to undo, or in a transaction of the
// lease.
func openAdd(transaction bool, opts ...doclock.Option) func(*Subject) error {
	return func(s *Subject) error {
		locks, err := multilock.New(s.Docs, relations.WritePreferring(), append(opts, doclock.TTL(s.ttl))...)
		if err != nil {
			return err
		}
		s.closing(locks)
		s.Add = func(ctx context.Context, category string) error {
			insert := func(ctx context.Context) error { return s.insertContact(ctx, category) }
			return locks.Do(ctx, doclock.ID(category), "read", func(ctx context.Context, lease doclock.Lease) error {
				if transaction {
					return lease.WithTransaction(ctx, insert)
				}
				return insert(context.WithoutCancel(ctx))
			})
		}
		return nil
	}
}
