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
	keptBack  = "document kept back from all writes"
	othersGo  = "leases of documents that nobody keeps back are kept"
	blockTTL  = 6 * time.Second
	keptLocks = 100
)

// Blocked keeps some of a hundred locked documents back from all writes, for
// longer than a TTL, as a long transaction does, and looks which of the kept
// leases are lost. Once for each number.
func Blocked(ctx context.Context, db *mongo.Database, uri string, numbers []int, t *tally.Tally) error {
	for _, n := range numbers {
		if err := keepBack(ctx, db, uri, n, t); err != nil {
			return fmt.Errorf("%d documents kept back: %w", n, err)
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
		docs[i] = bson.M{"_id": i}
	}
	if _, err := st.other.InsertMany(ctx, docs); err != nil {
		return err
	}
	kept := make([]context.Context, keptLocks)
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	for i := range kept {
		lease, err := locks.TryAcquire(ctx, bson.M{"_id": i}, "write")
		if err != nil {
			return err
		}
		kept[i] = lease.KeepAlive(inner)
	}
	st.net.Block(func(command string, message []byte) bool {
		return (command == "update" || command == "findAndModify") && names(message, blocked)
	})
	t.Fired(keptBack, blocked)
	for _, one := range kept[:blocked] {
		<-one.Done() // a TTL after its last renewal
	}
	st.net.Block(nil)
	for i, one := range kept[blocked:] {
		t.Checked(othersGo, 1)
		if one.Err() != nil {
			t.Violated(othersGo, "%d documents kept back: the lease of document %d is lost: %v", blocked, blocked+i, context.Cause(one))
		}
	}
	return locks.Close(ctx)
}

// names says of a message that it has a filter for one of the first documents.
func names(message []byte, documents int) bool {
	for i := range documents {
		if bytes.Contains(message, binary.LittleEndian.AppendUint32([]byte("\x10_id\x00"), uint32(i))) {
			return true
		}
	}
	return false
}
