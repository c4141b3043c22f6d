package main

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// plain is the floor: findOneAndUpdate {$inc} without any lock. Two of them are
// the least cost of an acquire and a release.
type plain struct{ base }

func openPlain(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	p := &plain{}
	return p, p.open(s, ttl)
}

func (p *plain) increment(ctx context.Context, key string) error {
	return unlessDeadlocked(func() error {
		return p.docs.FindOneAndUpdate(ctx, bson.M{"_id": key}, bson.M{"$inc": bson.M{"count": 1}}, onlyID).Err()
	})
}

func (p *plain) lock(ctx context.Context, key string) (unlock, error) {
	return func(ctx context.Context) error { return p.increment(ctx, key) }, p.increment(ctx, key)
}

// optimistic is the version check: find, then findOneAndUpdate with the found
// version as a condition. If another client was faster, it begins again at
// once.
type optimistic struct{ base }

func openOptimistic(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	o := &optimistic{}
	return o, o.open(s, ttl)
}

func (o *optimistic) increment(ctx context.Context, key string) error {
	for {
		doc, err := o.read(ctx, key)
		if err != nil {
			return err
		}
		err = unlessDeadlocked(func() error {
			return o.docs.FindOneAndUpdate(ctx, bson.M{"_id": key, "version": doc.Version},
				bson.M{"$set": bson.M{"count": doc.Count + 1, "version": doc.Version + 1}}, onlyID).Err()
		})
		if !none(err) {
			return err
		}
	}
}
