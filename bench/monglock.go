package main

import (
	"context"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// monglockWrite is monglock's writeLock, by its commands (Node.js library,
// version 3; clocks are the clients'):
//
//	acquire  updateOne {<filter>, $or: [{lock: {$exists: false}}, {lock.active: false}, {lock.timestamp: {$lte: now − locktimeout}}]}
//	                   {$set: {lock: {active: true, timestamp: now}}}
//	         refused:  find {<filter>}, to tell "taken" from "not found"; the caller tries again
//	release  updateOne {<filter>, lock.timestamp: <the acquire's>} {$set: {lock.active: false}}
type monglockWrite struct{ base }

func openMonglockWrite(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	m := &monglockWrite{}
	return m, m.open(s, ttl)
}

func (m *monglockWrite) lock(ctx context.Context, key string) (unlock, error) {
	var now int64
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		now = time.Now().UnixMilli()
		filter := bson.M{"_id": key, "$or": bson.A{
			bson.M{"lock": bson.M{"$exists": false}},
			bson.M{"lock.active": false},
			bson.M{"lock.timestamp": bson.M{"$lte": now - m.ttl.Milliseconds()}},
		}}
		r, err := m.docs.UpdateOne(ctx, filter, bson.M{"$set": bson.M{"lock": bson.M{"active": true, "timestamp": now}}})
		if err != nil || r.MatchedCount == 1 {
			return err == nil, err
		}
		_, err = m.read(ctx, key)
		return false, err
	})
	return func(ctx context.Context) error {
		return unlessDeadlocked(func() error {
			r, err := m.docs.UpdateOne(ctx, bson.M{"_id": key, "lock.timestamp": now}, bson.M{"$set": bson.M{"lock.active": false}})
			if err == nil && r.MatchedCount != 1 {
				return fmt.Errorf("monglock's writeLock of %s was reacquired", key)
			}
			return err
		})
	}, err
}

func (m *monglockWrite) increment(ctx context.Context, key string) error {
	return m.incrementUnder(ctx, key, m.lock)
}

// monglockMulti is monglock's multiLock under its documentation's example:
// read is cooperative with write; write is cooperative with write and
// assertive with read. By its commands, where free(tags) is
//
//	$or: [{lock: {$exists: false}}, {$and: [for each tag {$or: [{lock.<tag>.timestamp: {$lte: now − locktimeout}}, {lock.<tag>: {$size: 0}}, {lock.<tag>: {$exists: false}}]}]}]
//
//	acquire  updateOne {<filter>, free(cooperative tags)} {$push: {lock.<tag>: {timestamp: now, id: ObjectId}}}
//	         refused:  find {<filter>}, and the caller tries again
//	         entered:  find {<filter>, free(assertive tags)}, and the caller finds again until it matches
//	release  updateOne {<filter>, lock.<tag>.id: id} {$pull: {lock.<tag>: {id: id}}}
type monglockMulti struct{ base }

func openMonglockMulti(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	m := &monglockMulti{}
	return m, m.open(s, ttl)
}

func (m *monglockMulti) lock(ctx context.Context, key string) (unlock, error) {
	return m.tagged(ctx, key, "write", "read")
}

func (m *monglockMulti) lockShared(ctx context.Context, key string) (unlock, error) {
	return m.tagged(ctx, key, "read", "")
}

func (m *monglockMulti) increment(ctx context.Context, key string) error {
	return m.incrementUnder(ctx, key, m.lock)
}

func (m *monglockMulti) tagged(ctx context.Context, key, tag, assertive string) (unlock, error) {
	id, now := bson.NewObjectID(), int64(0)
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		now = time.Now().UnixMilli()
		r, err := m.docs.UpdateOne(ctx, m.free(key, "write", now), bson.M{"$push": bson.M{"lock." + tag: bson.M{"timestamp": now, "id": id}}})
		if err != nil || r.MatchedCount == 1 {
			return err == nil, err
		}
		_, err = m.read(ctx, key)
		return false, err
	})
	release := func(ctx context.Context) error {
		return unlessDeadlocked(func() error {
			r, err := m.docs.UpdateOne(ctx, bson.M{"_id": key, "lock." + tag + ".id": id}, bson.M{"$pull": bson.M{"lock." + tag: bson.M{"id": id}}})
			if err == nil && r.MatchedCount != 1 {
				return fmt.Errorf("monglock's multiLock of %s was not found", key)
			}
			return err
		})
	}
	if err != nil {
		return nil, err
	}
	filter := bson.M{"_id": key}
	if assertive != "" {
		filter = m.free(key, assertive, now)
	}
	err = poll(ctx, func(ctx context.Context) (bool, error) {
		err := m.docs.FindOne(ctx, filter).Err()
		if none(err) {
			return false, nil
		}
		return err == nil, err
	})
	if err != nil {
		_ = release(context.WithoutCancel(ctx))
	}
	return release, err
}

func (m *monglockMulti) crowd(ctx context.Context, key string, n int) error {
	entries := bson.A{}
	for range n {
		entries = append(entries, bson.M{"timestamp": time.Now().UnixMilli(), "id": bson.NewObjectID()})
	}
	_, err := m.docs.UpdateOne(ctx, bson.M{"_id": key}, bson.M{"$set": bson.M{"lock": bson.M{"read": entries}}})
	return err
}

func (m *monglockMulti) free(key, tag string, now int64) bson.M {
	entries := "lock." + tag
	return bson.M{"_id": key, "$or": bson.A{
		bson.M{"lock": bson.M{"$exists": false}},
		bson.M{"$and": bson.A{bson.M{"$or": bson.A{
			bson.M{entries + ".timestamp": bson.M{"$lte": now - m.ttl.Milliseconds()}},
			bson.M{entries: bson.M{"$size": 0}},
			bson.M{entries: bson.M{"$exists": false}},
		}}}},
	}}
}
