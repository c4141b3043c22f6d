package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"github.com/doclock/doclock/writelock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// The lock of writelock: `Acquire` and `Release`, one command each; a
// read-modify-write is `Acquire` with doclock.Into and `UpdateAndRelease`.
type doclockWrite struct {
	base
	locks *writelock.Locker
}

func openDoclock(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
	d := &doclockWrite{}
	if err := d.open(s, ttl); err != nil {
		return nil, err
	}
	var err error
	d.locks, err = writelock.New(d.docs, doclock.TTL(ttl))
	return d, err
}

func (d *doclockWrite) lock(ctx context.Context, key string) (unlock, error) {
	lease, err := d.locks.Acquire(ctx, bson.M{"_id": key})
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (d *doclockWrite) increment(ctx context.Context, key string) error {
	var doc countAndVersion
	lease, err := d.locks.Acquire(ctx, bson.M{"_id": key}, doclock.Into(&doc))
	if err != nil {
		return err
	}
	return lease.UpdateAndRelease(context.WithoutCancel(ctx), bson.M{"$set": bson.M{"count": doc.Count + 1}})
}

func (d *doclockWrite) close() {
	closeLocker(d.locks)
	d.base.close()
}

// The locks of multilock under a preset: "write" and "read".
type doclockTagged struct {
	base
	locks *multilock.Locker
}

func openTagged(preset string) func(context.Context, *servers, time.Duration) (subject, error) {
	rules := map[string]relations.Rules{
		"fair":             relations.Fair(),
		"read-preferring":  relations.ReadPreferring(),
		"write-preferring": relations.WritePreferring(),
	}[preset]
	return func(_ context.Context, s *servers, ttl time.Duration) (subject, error) {
		d := &doclockTagged{}
		if err := d.open(s, ttl); err != nil {
			return nil, err
		}
		var err error
		d.locks, err = multilock.New(d.docs, rules, doclock.TTL(ttl))
		return d, err
	}
}

func (d *doclockTagged) lock(ctx context.Context, key string) (unlock, error) {
	return d.tagged(ctx, key, "write")
}

func (d *doclockTagged) lockShared(ctx context.Context, key string) (unlock, error) {
	return d.tagged(ctx, key, "read")
}

func (d *doclockTagged) tagged(ctx context.Context, key, tag string) (unlock, error) {
	lease, err := d.locks.Acquire(ctx, bson.M{"_id": key}, tag)
	if err != nil {
		return nil, err
	}
	return lease.Release, nil
}

func (d *doclockTagged) increment(ctx context.Context, key string) error {
	var doc countAndVersion
	lease, err := d.locks.Acquire(ctx, bson.M{"_id": key}, "write", doclock.Into(&doc))
	if err != nil {
		return err
	}
	return lease.UpdateAndRelease(context.WithoutCancel(ctx), bson.M{"$set": bson.M{"count": doc.Count + 1}})
}

// crowd writes entries in the documented form.
func (d *doclockTagged) crowd(ctx context.Context, key string, n int) error {
	host, _ := os.Hostname()
	owner, now, entries := fmt.Sprintf("%s/%d/bench", host, os.Getpid()), time.Now(), bson.A{}
	for i := range n {
		id := uuid.New()
		entries = append(entries, bson.D{
			{Key: "id", Value: bson.Binary{Subtype: bson.TypeBinaryUUID, Data: id[:]}}, {Key: "owner", Value: owner},
			{Key: "seq", Value: int64(i + 1)}, {Key: "fence", Value: int64(i + 1)}, {Key: "since", Value: now}, {Key: "expires", Value: now.Add(d.ttl)},
		})
	}
	_, err := d.docs.UpdateOne(ctx, bson.M{"_id": key}, bson.M{"$set": bson.M{"lock": bson.M{"fence": int64(n), "tags": bson.M{"read": entries}}}})
	return err
}

func (d *doclockTagged) close() {
	closeLocker(d.locks)
	d.base.close()
}

// closeLocker waits for the locker's background work.
func closeLocker(l interface{ Close(context.Context) error }) {
	ctx, cancel := context.WithTimeout(context.Background(), 15*time.Second)
	defer cancel()
	_ = l.Close(ctx)
}

// cutOff reports whether an operation ended because its window did.
func cutOff(ctx context.Context, err error) bool {
	return err != nil && ctx.Err() != nil && (errors.Is(err, ctx.Err()) || errors.Is(err, context.Cause(ctx)))
}
