package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A subject is doclock or a rival, with its own connections and counter. The
// interfaces below are its abilities.
type subject interface {
	sent() *counter
	ping(context.Context) error // of the MongoDB server
	close()
}

// unlock releases a lock. Its context is not the waiter's.
type unlock func(context.Context) error

// A locker waits for the lock of a key until ctx ends.
type locker interface {
	subject
	lock(ctx context.Context, key string) (unlock, error)
}

// A sharer has locks that exclude only lock's, and not each other.
type sharer interface {
	locker
	lockShared(ctx context.Context, key string) (unlock, error)
}

// An incrementer adds one to a document's count, as a program that reads,
// computes and writes, and loses no write of others.
type incrementer interface {
	subject
	increment(ctx context.Context, key string) error
}

// A warmer prepares n goroutines outside of the measurement.
type warmer interface {
	warm(ctx context.Context, n int) error
}

// subjects by name. ttl is how long a dead holder's lock is kept.
var subjects = map[string]func(ctx context.Context, s *servers, ttl time.Duration) (subject, error){
	"doclock":                  openDoclock,
	"doclock-fair":             openTagged("fair"),
	"doclock-read-preferring":  openTagged("read-preferring"),
	"doclock-write-preferring": openTagged("write-preferring"),
	"doclock-share":            openShared,
	"plain":                    openPlain,
	"plain-1":                  openPlain,
	"optimistic":               openOptimistic,
	"monglock-write":           openMonglockWrite,
	"monglock-multi":           openMonglockMulti,
	"mongolock-x":              openMongolock,
	"mongolock-s":              openMongolock,
	"four-step":                openFourStep,
	"find-upsert":              openFindUpsert,
	"redislock":                openRedislock,
	"redsync":                  openRedsync,
	"etcd":                     openEtcd,
	"doclock-claim":            openDoclockClaim,
	"find-try":                 openFindTry,
	"find-and-modify":          openFindAndModify,
}

// The subjects that need a server that may be missing.
var needs = map[string]string{"redislock": "redis", "redsync": "redis", "etcd": "etcd"}

// errAbsent is the error of a rival whose server is missing.
var errAbsent = errors.New("absent")

func open(ctx context.Context, s *servers, name string, ttl time.Duration) (subject, error) {
	if server := needs[name]; s.Absent[server] != "" {
		return nil, fmt.Errorf("%w: %s: %s", errAbsent, server, s.Absent[server])
	}
	sub, err := subjects[name](ctx, s, ttl)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return sub, nil
}

// named is an open subject.
type named struct {
	name string
	subject
}

// rival reports whether an error of the subject doesn't end the run.
func rival(name string) bool {
	return !strings.HasPrefix(name, "doclock") && !strings.HasPrefix(name, "plain")
}

// openAll opens the available subjects. The report has the missing ones.
func (b *bench) openAll(ctx context.Context, ttl time.Duration, names ...string) (all []named, closeAll func(), err error) {
	closeAll = func() {
		for _, s := range all {
			s.close()
		}
	}
	for _, name := range names {
		s, err := open(ctx, &b.servers, name, ttl)
		if errors.Is(err, errAbsent) {
			b.say("  %s: %v", name, err)
			continue
		}
		if err != nil {
			closeAll()
			return nil, nil, err
		}
		all = append(all, named{name, s})
	}
	return all, closeAll, nil
}

// base is common to all subjects: a client of the MongoDB server.
type base struct {
	counter counter
	client  *mongo.Client
	docs    *mongo.Collection
	ttl     time.Duration
}

func (m *base) open(s *servers, ttl time.Duration, more ...*options.ClientOptions) (err error) {
	if m.client, err = s.connect(&m.counter, more...); err != nil {
		return err
	}
	m.docs, m.ttl = m.client.Database(s.Database).Collection(documents), ttl
	return nil
}

func (m *base) sent() *counter { return &m.counter }

func (m *base) ping(ctx context.Context) error { return m.client.Ping(ctx, nil) }

func (m *base) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	_ = m.client.Disconnect(ctx)
}

// countAndVersion are the fields of a document that the subjects read.
type countAndVersion struct{ Count, Version int }

func (m *base) read(ctx context.Context, key string) (doc countAndVersion, err error) {
	return doc, m.docs.FindOne(ctx, bson.M{"_id": key}).Decode(&doc)
}

// incrementUnder is the critical section under a lock: find, compute, update.
func (m *base) incrementUnder(ctx context.Context, key string, lock func(context.Context, string) (unlock, error)) error {
	unlock, err := lock(ctx, key)
	if err != nil {
		return err
	}
	detached := context.WithoutCancel(ctx)
	doc, err := m.read(detached, key)
	if err == nil {
		err = unlessDeadlocked(func() error {
			_, err := m.docs.UpdateOne(detached, bson.M{"_id": key}, bson.M{"$set": bson.M{"count": doc.Count + 1}})
			return err
		})
	}
	return errors.Join(err, unlock(detached))
}

var onlyID = options.FindOneAndUpdate().SetProjection(bson.M{"_id": 1})

// none reports whether no document matched, which for a rival means "not now".
func none(err error) bool { return errors.Is(err, mongo.ErrNoDocuments) }

// duplicate reports whether a unique index refused an insert. DocumentDB
// reports some races for an index as internal errors.
func duplicate(err error) bool {
	return mongo.IsDuplicateKeyError(err) || err != nil && strings.Contains(err.Error(), "violates exclusion constraint")
}

// unlessDeadlocked repeats a command that DocumentDB gave up because of a
// deadlock among its own row locks. The command changed nothing. The error code
// is not always its own.
func unlessDeadlocked(command func() error) error {
	for {
		if err := command(); err == nil || !strings.Contains(err.Error(), "deadlock detected") {
			return err
		}
	}
}

// poll tries until it succeeds or ctx ends. The rivals that leave waiting to
// their callers all wait as doclock does alone: an eighth of the time waited so
// far, from 2 ms to 1 s, jittered. A sent command is not cut off, because it
// could leave a lock without a holder.
func poll(ctx context.Context, try func(context.Context) (bool, error)) error {
	detached := context.WithoutCancel(ctx)
	for begun := time.Now(); ; {
		var done bool
		err := unlessDeadlocked(func() (err error) { done, err = try(detached); return err })
		if err != nil || done {
			return err
		}
		d := min(max(time.Since(begun)/8, 2*time.Millisecond), time.Second)
		select {
		case <-time.After(d/2 + rand.N(d)):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
