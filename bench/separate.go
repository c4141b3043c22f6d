package main

import (
	"context"
	"errors"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// fourStep is the most common homemade lock, in its own collection. It stays if
// its holder dies (a TTL index may remove it, within a minute). Its commands:
//
//	acquire  insertOne {_id: key, owner}; a duplicate key means that it is locked
//	section  find, updateOne
//	release  deleteOne {_id: key, owner}
type fourStep struct {
	base
	locks *mongo.Collection
}

func openFourStep(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	f := &fourStep{}
	if err := f.open(s, ttl); err != nil {
		return nil, err
	}
	f.locks = f.client.Database(s.Database).Collection("foursteps")
	return f, nil
}

func (f *fourStep) lock(ctx context.Context, key string) (unlock, error) {
	owner := bson.NewObjectID()
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		_, err := f.locks.InsertOne(ctx, bson.M{"_id": key, "owner": owner})
		if duplicate(err) {
			return false, nil
		}
		return err == nil, err
	})
	return func(ctx context.Context) error {
		return unlessDeadlocked(func() error {
			r, err := f.locks.DeleteOne(ctx, bson.M{"_id": key, "owner": owner})
			if err == nil && r.DeletedCount != 1 {
				return errLostLock
			}
			return err
		})
	}, err
}

func (f *fourStep) increment(ctx context.Context, key string) error {
	return f.incrementUnder(ctx, key, f.lock)
}

// findUpsert looks before it upserts, by the server's clock:
//
//	acquire  find {_id: key, $expr: {$gt: [$expires, $$NOW]}}: another client has it
//	         findAndModify {_id: key} [{$set: {owner: <ours, unless $expires > $$NOW>, expires: <$$NOW + ttl, unless …>}}],
//	         upsert, new; it is ours if the owner is; a duplicate key means that another client was faster
//	section  find, updateOne
//	release  updateOne {_id: key, owner} {$set: {expires: 1970}}
type findUpsert struct {
	base
	locks *mongo.Collection
}

func openFindUpsert(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	f := &findUpsert{}
	if err := f.open(s, ttl); err != nil {
		return nil, err
	}
	f.locks = f.client.Database(s.Database).Collection("findupserts")
	return f, nil
}

func (f *findUpsert) lock(ctx context.Context, key string) (unlock, error) {
	owner := bson.NewObjectID()
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		err := f.locks.FindOne(ctx, bson.M{"_id": key, "$expr": bson.M{"$gt": bson.A{"$expires", "$$NOW"}}}).Err()
		if !none(err) {
			return false, err
		}
		var now struct{ Owner bson.ObjectID }
		err = f.locks.FindOneAndUpdate(ctx, bson.M{"_id": key}, bson.A{bson.M{"$set": bson.M{
			"owner":   unlessLive("$owner", owner),
			"expires": unlessLive("$expires", bson.M{"$add": bson.A{"$$NOW", f.ttl.Milliseconds()}}),
		}}}, options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&now)
		if duplicate(err) {
			return false, nil
		}
		return err == nil && now.Owner == owner, err
	})
	return func(ctx context.Context) error {
		return unlessDeadlocked(func() error {
			r, err := f.locks.UpdateOne(ctx, bson.M{"_id": key, "owner": owner}, bson.M{"$set": bson.M{"expires": time.Unix(0, 0)}})
			if err == nil && r.MatchedCount != 1 {
				return errLostLock
			}
			return err
		})
	}, err
}

func unlessLive(as, otherwise any) bson.M {
	return bson.M{"$cond": bson.A{bson.M{"$gt": bson.A{"$expires", "$$NOW"}}, as, otherwise}}
}

func (f *findUpsert) increment(ctx context.Context, key string) error {
	return f.incrementUnder(ctx, key, f.lock)
}

var errLostLock = errors.New("the lock was lost")
