package subjects

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// openMonglockWrite is monglock's writeLock, by its commands (Node.js library,
// version 3; clocks are the clients'):
//
//	acquire  updateOne {<filter>, $or: [{lock: {$exists: false}}, {lock.active: false}, {lock.timestamp: {$lte: now − locktimeout}}]}
//	                   {$set: {lock: {active: true, timestamp: now}}}
//	         refused:  find {<filter>}, to tell "taken" from "not found"; the caller tries again
//	release  updateOne {<filter>, lock.timestamp: <the acquire's>} {$set: {lock.active: false}}
func openMonglockWrite(s *Subject) error {
	s.Lock = func(ctx context.Context, key string) (Unlock, error) {
		var now int64
		err := s.enter(ctx, key, func() (filter, update bson.M) {
			now = time.Now().UnixMilli()
			return bson.M{"_id": key, "$or": bson.A{
				bson.M{"lock": bson.M{"$exists": false}},
				bson.M{"lock.active": false},
				bson.M{"lock.timestamp": bson.M{"$lte": now - s.ttl.Milliseconds()}},
			}}, bson.M{"$set": bson.M{"lock": bson.M{"active": true, "timestamp": now}}}
		})
		return updating(s.Docs, bson.M{"_id": key, "lock.timestamp": now}, bson.M{"$set": bson.M{"lock.active": false}}), err
	}
	return nil
}

// enter updates until the filter matches, and looks at the document after each
// refusal, as monglock and its callers do.
func (s *Subject) enter(ctx context.Context, key string, command func() (filter, update bson.M)) error {
	return poll(ctx, func(ctx context.Context) (bool, error) {
		filter, update := command()
		r, err := s.Docs.UpdateOne(ctx, filter, update)
		if err != nil || r.MatchedCount == 1 {
			return err == nil, err
		}
		_, err = s.Read(ctx, key)
		return false, err
	})
}

// openMonglockMulti is the tag write of monglock's multiLock under its documentation's
// example: write is cooperative with write and assertive with read. By its commands,
// where free(tags) is
//
//	$or: [{lock: {$exists: false}}, {$and: [for each tag {$or: [{lock.<tag>.timestamp: {$lte: now − locktimeout}}, {lock.<tag>: {$size: 0}}, {lock.<tag>: {$exists: false}}]}]}]
//
//	acquire  updateOne {<filter>, free(cooperative tags)} {$push: {lock.<tag>: {timestamp: now, id: ObjectId}}}
//	         refused:  find {<filter>}, and the caller tries again
//	         entered:  find {<filter>, free(assertive tags)}, and the caller finds again until it matches
//	release  updateOne {<filter>, lock.<tag>.id: id} {$pull: {lock.<tag>: {id: id}}}
func openMonglockMulti(s *Subject) error {
	free := func(key, tag string, now int64) bson.M {
		entries := "lock." + tag
		return bson.M{"_id": key, "$or": bson.A{
			bson.M{"lock": bson.M{"$exists": false}},
			bson.M{"$and": bson.A{bson.M{"$or": bson.A{
				bson.M{entries + ".timestamp": bson.M{"$lte": now - s.ttl.Milliseconds()}},
				bson.M{entries: bson.M{"$size": 0}},
				bson.M{entries: bson.M{"$exists": false}},
			}}}},
		}}
	}
	s.Lock = func(ctx context.Context, key string) (Unlock, error) {
		id, now := bson.NewObjectID(), int64(0)
		err := s.enter(ctx, key, func() (filter, update bson.M) {
			now = time.Now().UnixMilli()
			return free(key, "write", now), bson.M{"$push": bson.M{"lock.write": bson.M{"timestamp": now, "id": id}}}
		})
		if err != nil {
			return nil, err
		}
		release := updating(s.Docs, bson.M{"_id": key, "lock.write.id": id}, bson.M{"$pull": bson.M{"lock.write": bson.M{"id": id}}})
		err = poll(ctx, func(ctx context.Context) (bool, error) {
			err := s.Docs.FindOne(ctx, free(key, "read", now)).Err()
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
	return nil
}
