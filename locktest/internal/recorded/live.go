package recorded

import (
	"context"
	"errors"
	"fmt"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// OnServer runs the command in a database that has the collection c, and that nothing
// else uses at that time.
func (r Recording) OnServer(ctx context.Context, db *mongo.Database) (Outcome, error) {
	name := "c"
	if r.Unique != nil || r.Kind == "count" || r.Kind == "refused" { // it has an index, or counts without a look, or makes one
		name = fmt.Sprint(r.Kind, r.N)
	}
	if _, err := db.Collection(name).DeleteMany(ctx, bson.D{}); err != nil {
		return Outcome{}, err
	}
	return r.On(func(command bson.D) (bson.Raw, error) {
		raw, err := db.RunCommand(ctx, command).Raw()
		var refused mongo.CommandError
		var write mongo.WriteException
		switch {
		case errors.As(err, &refused):
			return refused.Raw, nil
		case errors.As(err, &write):
			return write.Raw, nil
		}
		return raw, err
	}, name)
}
