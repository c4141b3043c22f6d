package main

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// furnish makes the locks of the session: some are held by this process, and the
// old ones are written by hand. clear removes all again.
func furnish(ctx context.Context, uri, dir string) (clear func(), err error) {
	client, err := mongo.Connect(options.Client().ApplyURI(uri))
	if err != nil {
		return nil, err
	}
	orders, named := client.Database("shop").Collection("orders"), client.Database("doclock").Collection("locks")
	clear = func() {
		_ = orders.Drop(ctx)
		_ = named.Drop(ctx)
		_ = client.Disconnect(ctx)
	}
	failed := func(err error) (func(), error) { clear(); return nil, err }
	if err := orders.Drop(ctx); err != nil {
		return failed(err)
	}
	if err := named.Drop(ctx); err != nil {
		return failed(err)
	}
	for _, e := range []struct {
		id           any
		owner        string
		age, expires time.Duration
	}{
		{"A-17", "web-3/4711/api", 3*time.Hour + 7*time.Minute, 9 * time.Second},
		{"A-18", "web-3/4711/api", 4 * time.Second, 9 * time.Second},
		{"B-02", "web-7/31/api", 80 * time.Minute, 22 * time.Hour},
		{"B-03", "web-7/31/api", 80 * time.Minute, 22 * time.Hour},
		{7, "batch-1/12/close", 26 * time.Hour, -25 * time.Hour},
	} {
		if _, err := orders.InsertOne(ctx, lockedBy(e.id, e.owner, e.age, e.expires)); err != nil {
			return failed(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "import.sh"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		return failed(err)
	}
	locks, err := writelock.New(named, doclock.Upsert(), doclock.Owner("etl-2/88/import.sh"), doclock.TTL(time.Hour))
	if err != nil {
		return failed(err)
	}
	if _, err := locks.Acquire(ctx, doclock.ID("import")); err != nil {
		return failed(err)
	}
	return clear, nil
}

// lockedBy is an order with a write lock of some age.
func lockedBy(id any, owner string, age, expires time.Duration) bson.D {
	now, entry := time.Now(), uuid.New()
	fence := now.Add(-age).UnixMilli()
	return bson.D{{Key: "_id", Value: id}, {Key: "lock", Value: bson.D{
		{Key: "fence", Value: fence},
		{Key: "tags", Value: bson.D{{Key: "write", Value: bson.A{bson.D{
			{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: entry[:]}}, {Key: "owner", Value: owner},
			{Key: "seq", Value: fence - 1}, {Key: "fence", Value: fence},
			{Key: "since", Value: now.Add(-age)}, {Key: "expires", Value: now.Add(expires)},
		}}}}},
	}}}
}
