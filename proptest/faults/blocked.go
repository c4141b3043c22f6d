package faults

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	blockedAll = "document blocked for all writes"
	othersGo   = "leases of documents that are not blocked are kept"
	blockTTL   = 6 * time.Second
	keptLocks  = 100
	firstID    = 1000 // no number that a projection has
)

// Blocked blocks all writes to some of a hundred locked documents for longer
// than a TTL, as a long transaction does. It checks which of the kept leases
// are lost. It runs once for each number.
func Blocked(ctx context.Context, db *mongo.Database, uri string, numbers []int, t *tally.Tally) error {
	for _, n := range numbers {
		if err := keepBack(ctx, db, uri, n, t); err != nil {
			return fmt.Errorf("%d blocked documents: %w", n, err)
		}
	}
	return nil
}

func keepBack(ctx context.Context, db *mongo.Database, uri string, blocked int, t *tally.Tally) error {
	st, err := newStage(db, uri)
	if err != nil {
		return err
	}
	defer st.close()
	locks, err := multilock.New(st.doc, relations.Exclusive(), doclock.TTL(blockTTL))
	if err != nil {
		return err
	}
	docs := make([]any, keptLocks)
	for i := range docs {
		docs[i] = bson.M{"_id": firstID + i}
	}
	if _, err := st.other.InsertMany(ctx, docs); err != nil {
		return err
	}
	leases, kept := make([]*doclock.Lease, keptLocks), make([]context.Context, keptLocks)
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range kept {
		if leases[i], err = locks.TryAcquire(ctx, bson.M{"_id": firstID + i}, "write"); err != nil {
			return err
		}
		kept[i] = leases[i].KeepAlive(inner)
	}
	st.net.Block(func(command string, message []byte) bool {
		return (command == "update" || command == "findAndModify") && names(message, blocked)
	})
	t.Fired(blockedAll, blocked)
	for _, one := range kept[:blocked] {
		<-one.Done() // a TTL after its last renewal
	}
	for i := blocked; i < keptLocks; i++ {
		for kept[i].Err() == nil && leases[i].Remaining() < blockTTL/2 {
			time.Sleep(time.Millisecond) // until it was renewed, or ends too
		}
		t.Checked(othersGo, 1)
		if kept[i].Err() != nil {
			t.Violated(othersGo, "%d blocked documents: the lease of document %d is lost: %v", blocked, i, context.Cause(kept[i]))
		}
	}
	st.net.Block(nil)
	return locks.Close(ctx)
}

// names reports whether a message has a filter for one of the first documents.
func names(message []byte, documents int) bool {
	for i := range documents {
		if bytes.Contains(message, binary.LittleEndian.AppendUint32([]byte("\x10_id\x00"), uint32(firstID+i))) {
			return true
		}
	}
	return false
}
