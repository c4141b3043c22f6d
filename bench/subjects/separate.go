package subjects

import (
	"context"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// openFindUpsert looks before it upserts, by the server's clock:
//
//	acquire  find {_id: key, $expr: {$gt: [$expires, $$NOW]}}: another client has it
//	         findAndModify {_id: key} [{$set: {owner: <ours, unless $expires > $$NOW>, expires: <$$NOW + ttl, unless …>}}],
//	         upsert, new; it is ours if the owner is; a duplicate key means that another client was faster
//	section  find, updateOne
//	release  updateOne {_id: key, owner} {$set: {expires: 1970}}
func openFindUpsert(s *Subject) error {
	locks := s.others("findupserts")
	live := bson.M{"$gt": bson.A{"$expires", "$$NOW"}}
	unlessLive := func(as, otherwise any) bson.M { return bson.M{"$cond": bson.A{live, as, otherwise}} }
	s.Lock = func(ctx context.Context, key string) (Unlock, error) {
		owner := bson.NewObjectID()
		err := poll(ctx, func(ctx context.Context) (bool, error) {
			err := locks.FindOne(ctx, bson.M{"_id": key, "$expr": live}).Err()
			if !none(err) {
				return false, err
			}
			var now struct{ Owner bson.ObjectID }
			err = locks.FindOneAndUpdate(ctx, bson.M{"_id": key}, bson.A{bson.M{"$set": bson.M{
				"owner":   unlessLive("$owner", owner),
				"expires": unlessLive("$expires", bson.M{"$add": bson.A{"$$NOW", s.ttl.Milliseconds()}}),
			}}}, options.FindOneAndUpdate().SetUpsert(true).SetReturnDocument(options.After)).Decode(&now)
			if duplicate(err) {
				return false, nil
			}
			return err == nil && now.Owner == owner, err
		})
		return updating(locks, bson.M{"_id": key, "owner": owner}, bson.M{"$set": bson.M{"expires": time.Unix(0, 0)}}), err
	}
	return nil
}
