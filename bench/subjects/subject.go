// Package subjects has the locks that are measured: doclock's, and those of its
// rivals.
package subjects

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/bench/servers"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// Subject is doclock or a rival, with its own connections and counter. The
// functions are its abilities: nil for one that it doesn't have.
type Subject struct {
	Name    string
	Sent    servers.Counter
	Client  *mongo.Client
	Docs    *mongo.Collection // the documents that are locked
	servers *servers.Servers
	ttl     time.Duration // how long a dead holder's lock is kept
	closers []func()

	// Lock waits for the lock of a key until ctx ends.
	Lock func(ctx context.Context, key string) (Unlock, error)
	// Increment adds one to a document's count, as a program that reads, computes
	// and writes, and loses no write of others. Without a way of its own a subject
	// finds, computes and updates under its lock.
	Increment func(ctx context.Context, key string) error
	// Claim returns the pending documents of a queue that have the highest priorities of
	// the free ones, one or a batch, or ErrNoneFree.
	Claim func(context.Context) ([]Claimed, error)
	Batch int // how many it claims at a time, or 0
	// Add adds a contact to a category, which nobody deletes meanwhile.
	Add func(ctx context.Context, category string) error
	// Warm prepares n goroutines outside of the measurement.
	Warm func(n int) error
}

// Unlock releases a lock. Its context is not the waiter's.
type Unlock func(context.Context) error

// subjects by name.
var subjects = map[string]struct {
	open  func(*Subject) error
	needs string // a server that may be missing
}{
	"doclock":          {open: openWrite},
	"plain":            {open: openPlain},
	"plain-alone":      {open: openPlain},
	"optimistic":       {open: openOptimistic},
	"monglock-write":   {open: openMonglockWrite},
	"monglock-multi":   {open: openMonglockMulti},
	"redislock":        {open: openRedislock, needs: "redis"},
	"etcd":             {open: openEtcd, needs: "etcd"},
	"doclock-claim":    {open: openClaim},
	"doclock-claim-10": {open: openBatch(10)},
	"doclock-claim-50": {open: openBatch(50)},
	"plain-claim":      {open: openFindAndModify},
	"plain-claim-10":   {open: openUpdateMany(10)},
	"plain-claim-50":   {open: openUpdateMany(50)},

	"doclock-undo":               {open: openAdd(false)},
	"doclock-undo-shared":        {open: openAdd(false, doclock.ShareInProcess("read"))},
	"doclock-transaction":        {open: openAdd(true), needs: servers.Transactions},
	"doclock-transaction-shared": {open: openAdd(true, doclock.ShareInProcess("read")), needs: servers.Transactions},
	"plain-transaction":          {open: openTouch, needs: servers.Transactions},
}

// ErrAbsent is the error of a subject whose server is missing, or has no transactions.
var ErrAbsent = errors.New("absent")

// Open connects a subject.
func Open(s *servers.Servers, name string, ttl time.Duration) (*Subject, error) {
	kind := subjects[name]
	if why := s.Absent[kind.needs]; why != "" {
		return nil, fmt.Errorf("%w: %s: %s", ErrAbsent, kind.needs, why)
	}
	sub := &Subject{Name: name, servers: s, ttl: ttl}
	var err error
	if sub.Client, err = s.Connect(&sub.Sent); err != nil {
		return nil, err
	}
	sub.closers = append(sub.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		_ = sub.Client.Disconnect(ctx)
	})
	sub.Docs = sub.Client.Database(s.Database).Collection("documents")
	sub.Increment, sub.Warm = sub.incrementLocked, func(int) error { return nil }
	if err := kind.open(sub); err != nil {
		sub.Close()
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return sub, nil
}

// Close ends the connections, the last one first.
func (s *Subject) Close() {
	for i := len(s.closers) - 1; i >= 0; i-- {
		s.closers[i]()
	}
}

// Rival reports whether an error of the subject doesn't end the run.
func (s *Subject) Rival() bool {
	return !strings.HasPrefix(s.Name, "doclock") && !strings.HasPrefix(s.Name, "plain")
}

// others is a collection beside the documents.
func (s *Subject) others(name string) *mongo.Collection { return s.Docs.Database().Collection(name) }

// incrementLocked is the critical section under a lock: find, compute, update.
func (s *Subject) incrementLocked(ctx context.Context, key string) error {
	unlock, err := s.Lock(ctx, key)
	if err != nil {
		return err
	}
	detached := context.WithoutCancel(ctx)
	doc, err := s.Read(detached, key)
	if err == nil {
		err = unlessDeadlocked(func() error {
			_, err := s.Docs.UpdateOne(detached, bson.M{"_id": key}, bson.M{"$set": bson.M{"count": doc.Count + 1}})
			return err
		})
	}
	return errors.Join(err, unlock(detached))
}
