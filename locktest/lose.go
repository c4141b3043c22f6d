package locktest

import (
	"errors"
	"fmt"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Guarded is a doclock.Lease.
type Guarded interface{ Guard() bson.D }

// Lose removes the lease's entry from its document now, as an operator does who
// breaks a lock. The holder learns it from its next command; until then its lease
// counts as valid, and others may be let in. It is an error if the entry is not
// there: the lease has ended, or it is another server's.
func (s *Server) Lose(lease Guarded) error {
	if lease == nil {
		return errors.New("locktest: the lease is nil; give one that was acquired from this server")
	}
	guard := value.Open(value.Of(lease.Guard()))
	entries := guard[len(guard)-1] // the last part of a guard is the entry's
	pull := value.Document{{Key: "$pull", Value: value.Document{{Key: entries.Key, Value: value.Get(entries.Value, "$elemMatch")}}.Close()}}
	statement := value.Document{{Key: "q", Value: guard.Close()}, {Key: "u", Value: pull.Close()}}
	for _, at := range s.store.Collections() {
		reply := s.run(value.Document{
			{Key: "update", Value: value.String(at.Name)},
			{Key: "updates", Value: value.Array([]bson.RawValue{statement.Close()})},
			{Key: "$db", Value: value.String(at.Database)},
		})
		if n, _ := value.Whole(value.Get(reply, "n")); n > 0 {
			return nil
		}
	}
	return fmt.Errorf("locktest: the lease has no entry in this server: it has ended, or it is another server's (%s)", guard.Close())
}
