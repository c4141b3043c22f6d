package main

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// mongolock is square/mongo-lock: locks in a collection of their own, with a
// unique index on "resource"; clocks are the clients'. By its commands:
//
//	XLock   findAndModify {resource, $or: [{exclusive.acquired: false}, {exclusive.expiresAt: {$lte: now}}], shared.count: 0}
//	                      {$set: {resource, exclusive: {lockId, …, acquired: true}, shared: {count: 0, locks: []}}}, upsert
//	SLock   findAndModify {resource, exclusive.acquired: false, shared.locks.lockId: {$ne: lockId}}
//	                      {$inc: {shared.count: 1}, $push: {shared.locks: {lockId, …, acquired: true}}}, upsert
//	        a duplicate key means that it is locked; the caller tries again
//	Unlock  aggregate     [{$match: {$or: [{exclusive.lockId}, {shared.locks.lockId}]}}, {$project: {shared.locks: {$filter: …}, resource, exclusive}}]
//	        findAndModify {resource, exclusive.lockId} {$set: {exclusive: {all null, acquired: false}}}, or
//	                      {resource, shared.locks.lockId} {$inc: {shared.count: -1}, $pull: {shared.locks: {lockId}}}
type mongolock struct {
	base
	locks *mongo.Collection
}

func openMongolock(ctx context.Context, s *servers, ttl time.Duration) (subject, error) {
	m := &mongolock{}
	// Its concurrent upserts sometimes block each other inside DocumentDB for minutes.
	if err := m.open(s, ttl, options.Client().SetTimeout(10*time.Second)); err != nil {
		return nil, err
	}
	m.locks = m.client.Database(s.Database).Collection("mongolocks")
	indexes := []mongo.IndexModel{{Keys: bson.M{"resource": 1}, Options: options.Index().SetUnique(true).SetSparse(true)}}
	for _, key := range []string{"exclusive.lockId", "exclusive.expiresAt", "shared.locks.lockId", "shared.locks.expiresAt"} {
		indexes = append(indexes, mongo.IndexModel{Keys: bson.M{key: 1}})
	}
	_, err := m.locks.Indexes().CreateMany(ctx, indexes)
	return m, err
}

func (m *mongolock) lock(ctx context.Context, key string) (unlock, error) {
	id := bson.NewObjectID().Hex()
	return m.acquire(ctx, key, id, m.free(id),
		func(now time.Time) (bson.M, bson.M) {
			return bson.M{"resource": key, "shared.count": 0, "$or": bson.A{
					bson.M{"exclusive.acquired": false},
					bson.M{"exclusive.expiresAt": bson.M{"$lte": now}},
				}}, bson.M{"$set": bson.M{
					"resource":  key,
					"exclusive": m.entry(id, now),
					"shared":    bson.M{"count": 0, "locks": bson.A{}},
				}}
		})
}

// lockShared is SLock. A lockId holds one shared lock of a resource at most.
func (m *mongolock) lockShared(ctx context.Context, key string) (unlock, error) {
	id := bson.NewObjectID().Hex()
	return m.acquire(ctx, key, id, m.free(id),
		func(now time.Time) (bson.M, bson.M) {
			return bson.M{"resource": key, "exclusive.acquired": false, "shared.locks.lockId": bson.M{"$ne": id}},
				bson.M{"$inc": bson.M{"shared.count": 1}, "$push": bson.M{"shared.locks": m.entry(id, now)}}
		})
}

func (m *mongolock) increment(ctx context.Context, key string) error {
	return m.incrementUnder(ctx, key, m.lock)
}

func (m *mongolock) acquire(ctx context.Context, key, id string, release unlock, command func(time.Time) (filter, update bson.M)) (unlock, error) {
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		filter, update := command(time.Now())
		err := m.locks.FindOneAndUpdate(ctx, filter, update,
			options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Err()
		if duplicate(err) {
			return false, nil
		}
		return err == nil, err
	})
	return release, err
}

func (m *mongolock) crowd(ctx context.Context, key string, n int) error {
	entries := bson.A{}
	for range n {
		entries = append(entries, m.entry(bson.NewObjectID().Hex(), time.Now()))
	}
	_, err := m.locks.InsertOne(ctx, bson.M{"resource": key, "exclusive": bson.M{"acquired": false}, "shared": bson.M{"count": n, "locks": entries}})
	return err
}

func (m *mongolock) entry(id string, now time.Time) bson.M {
	return bson.M{"lockId": id, "owner": nil, "host": nil, "comment": nil, "createdAt": now, "renewedAt": nil,
		"expiresAt": now.Add(m.ttl), "acquired": true, "_id": bson.NewObjectID()}
}

// free is Unlock: it looks for the lockId's locks, and frees each one. If there
// is none, that is no error for it.
func (m *mongolock) free(id string) unlock {
	return func(ctx context.Context) error {
		cursor, err := m.locks.Aggregate(ctx, bson.A{
			bson.M{"$match": bson.M{"$or": bson.A{bson.M{"exclusive.lockId": id}, bson.M{"shared.locks.lockId": id}}}},
			bson.M{"$project": bson.M{"resource": true, "exclusive": true, "shared.locks": bson.M{"$filter": bson.M{
				"input": "$shared.locks", "as": "lock", "cond": bson.M{"$and": bson.A{bson.M{"$eq": bson.A{"$$lock.lockId", id}}}}}}}},
		})
		if err != nil {
			return err
		}
		var found []struct {
			Resource  string
			Exclusive struct {
				Acquired bool
				LockID   string `bson:"lockId"`
			}
		}
		if err := cursor.All(ctx, &found); err != nil {
			return err
		}
		for _, r := range found {
			filter, update := bson.M{"resource": r.Resource, "shared.locks.lockId": id},
				bson.M{"$inc": bson.M{"shared.count": -1}, "$pull": bson.M{"shared.locks": bson.M{"lockId": id}}}
			if r.Exclusive.Acquired {
				filter = bson.M{"resource": r.Resource, "exclusive.lockId": id}
				update = bson.M{"$set": bson.M{"exclusive": bson.M{"lockId": nil, "owner": nil, "host": nil, "comment": nil,
					"createdAt": nil, "renewedAt": nil, "expiresAt": nil, "acquired": false}}}
			}
			if err := unlessDeadlocked(func() error {
				return m.locks.FindOneAndUpdate(ctx, filter, update, options.FindOneAndUpdate().SetReturnDocument(options.After)).Err()
			}); err != nil {
				return err
			}
		}
		return nil
	}
}
