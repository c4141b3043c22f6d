package mongotest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// probe asks the server at uri for its kind, and waits up to limit for a
// primary to answer.
func probe(ctx context.Context, uri string, limit time.Duration) (what string, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	opts := options.Client().ApplyURI(uri)
	if opts.ServerSelectionTimeout == nil {
		opts.SetServerSelectionTimeout(limit)
	}
	client, err := mongo.Connect(opts)
	if err != nil {
		return "", errUnusable
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()

	admin := client.Database("admin")
	var hello struct {
		SetName string `bson:"setName"`
		Msg     string `bson:"msg"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "isMaster", Value: 1}}).Decode(&hello); err != nil {
		return "", fmt.Errorf("the server does not answer: %w", err)
	}
	var build struct {
		Version  string `bson:"version"`
		FerretDB struct {
			Version string `bson:"version"`
		} `bson:"ferretdb"`
	}
	if err := admin.RunCommand(ctx, bson.D{{Key: "buildInfo", Value: 1}}).Decode(&build); err != nil {
		return "", fmt.Errorf("the server does not say its version: %w", err)
	}

	what = "MongoDB " + build.Version
	if build.FerretDB.Version != "" {
		what = fmt.Sprintf("FerretDB %s (answers as MongoDB %s)", build.FerretDB.Version, build.Version)
	}
	switch {
	case hello.SetName != "":
		return what + ", replica set " + hello.SetName, nil
	case hello.Msg == "isdbgrid":
		return what + ", sharded", nil
	default:
		return what + ", standalone", nil
	}
}

// errUnusable has nothing of the URI, nor of the driver's error: a password may be anywhere in them.
var errUnusable = errors.New("the server's URI can't be used; it is like mongodb://USER:PASSWORD@HOST:PORT/, with special characters escaped")
