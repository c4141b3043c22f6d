package main

import (
	"cmp"
	"context"
	"os"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/admin"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// defaultCollection is where "doclock run NAME" makes its locks.
const defaultCollection = "doclock.locks"

// namespace is the collection's database and name.
func (c *cli) namespace() (db, coll string, err error) {
	full := c.full()
	db, coll, _ = strings.Cut(full, ".")
	if db == "" || coll == "" {
		return "", "", usage("the collection is %q; give DB.COLLECTION, as in -c shop.orders", full)
	}
	return db, coll, nil
}

// full is the collection's name with its database's.
func (c *cli) full() string {
	return cmp.Or(c.collection, os.Getenv("DOCLOCK_COLLECTION"), defaultCollection)
}

// connect opens the collection. Nothing is sent yet. The caller calls close.
func (c *cli) connect() (coll *mongo.Collection, close func(), err error) {
	db, name, err := c.namespace()
	if err != nil {
		return nil, nil, err
	}
	if c.timeout < shortestTimeout {
		return nil, nil, usage("--timeout is %v; give at least %v", c.timeout, shortestTimeout)
	}
	opts, err := c.clientOptions()
	if err != nil {
		return nil, nil, err
	}
	if opts.ServerSelectionTimeout == nil || c.timeout != patience {
		opts.SetServerSelectionTimeout(c.timeout)
	}
	if opts.ConnectTimeout == nil {
		opts.SetConnectTimeout(c.timeout)
	}
	if opts.MaxPoolSize != nil && *opts.MaxPoolSize == 1 {
		opts.SetMaxPoolSize(2) // the second one for the pings of answered
	}
	client, err := mongo.Connect(opts)
	if err != nil {
		return nil, nil, err
	}
	return client.Database(db).Collection(name), func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_ = client.Disconnect(ctx) // the process ends
	}, nil
}

// adminOptions are those that all of admin's functions have.
func (c *cli) adminOptions(more ...admin.Option) []admin.Option {
	opts := []admin.Option{admin.Field(c.field)}
	if len(c.shardKey) > 0 {
		opts = append(opts, admin.ShardKey(c.shardKey...))
	}
	return append(opts, more...)
}

// lockerOptions are those that a Locker of the same documents has.
func (c *cli) lockerOptions(more ...doclock.Option) []doclock.Option {
	opts := []doclock.Option{doclock.Field(c.field)}
	if len(c.shardKey) > 0 {
		opts = append(opts, doclock.ShardKey(c.shardKey...))
	}
	return append(opts, more...)
}
