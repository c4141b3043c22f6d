package scenarios

import (
	"bytes"
	"context"
	"encoding/binary"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	blocked  = "document blocked for all writes"
	othersGo = "leases of documents that are not blocked are kept"
)

// blockedDocuments blocks all writes to some of a hundred locked documents for longer
// than a TTL, as a long transaction does. It checks which of the kept leases
// are lost.
func blockedDocuments(t testing.TB, n int, counts *tally.Tally) {
	for sum, i := 0, 0; sum < n; i++ {
		some := []int{4, 6, 8, 16, 64, 1, 3}[i%7]
		newStage(t, counts).block(some)
		sum += some
	}
}

func (s *stage) block(n int) {
	const (
		all     = 100
		firstID = 1000 // no number that a projection has
		life    = 12 * time.Second
	)
	locks, err := multilock.New(s.docs, relations.Exclusive(), doclock.TTL(life))
	s.must(err)
	docs, leases, kept := make([]any, all), make([]*doclock.Lease, all), make([]context.Context, all)
	for i := range docs {
		docs[i] = bson.M{"_id": firstID + i}
	}
	_, err = s.other.InsertMany(s.Context(), docs)
	s.must(err)
	for i := range kept {
		leases[i], err = locks.TryAcquire(s.Context(), docs[i], "write")
		s.must(err)
		kept[i] = leases[i].KeepAlive(s.Context())
	}
	s.net.Block(func(command string, message []byte) bool {
		names := func(id int) bool {
			return bytes.Contains(message, binary.LittleEndian.AppendUint32([]byte("\x10_id\x00"), uint32(id)))
		}
		for i := range n {
			if names(firstID + i) {
				return command == "update" || command == "findAndModify"
			}
		}
		return false
	})
	s.Fired(blocked, n)
	for _, one := range kept[:n] {
		<-one.Done() // a TTL after its last renewal
	}
	for i := n; i < all; i++ {
		s.until("a renewal", func() bool { return kept[i].Err() != nil || leases[i].Remaining() > life/2 })
		s.check(othersGo, kept[i].Err() == nil, "%d blocked documents: the lease of document %d is lost: %v", n, i, context.Cause(kept[i]))
	}
	s.net.Block(nil)
	for _, lease := range leases {
		_ = lease.Release(s.Context())
	}
	s.must(locks.Close(s.Context()))
}
