package locktest

import (
	"errors"
	"fmt"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Guarded is a doclock.Lease.
type Guarded interface{ Guard() bson.D }

// lose removes a lease's entry from one of the collections, by a command.
func lose(lease Guarded, among []string, run func(value.Document) bson.RawValue) error {
	if lease == nil {
		return errors.New("locktest: the lease is nil; give one that was acquired from this server")
	}
	raw, err := bson.Marshal(lease.Guard())
	if err != nil {
		return fmt.Errorf("locktest: the guard can't be encoded; give a lease that was acquired from this server: %w", err)
	}
	guard := value.Open(value.Doc(raw))
	for _, entries := range guard[max(0, len(guard)-1):] { // the last part of a guard is the entry's
		if entry := value.Get(entries.Value, "$elemMatch"); !value.IsMissing(entry) && pull(guard, entries.Key, entry, among, run) {
			return nil
		}
	}
	return fmt.Errorf("locktest: the lease has no entry in this server: it has ended, or it is another server's (%s)", guard.Close())
}

// pull removes an entry from the document that a guard matches, notes its fencing token as a
// break does, and reports whether it was there.
func pull(guard value.Document, entries string, entry bson.RawValue, among []string, run func(value.Document) bson.RawValue) bool {
	lock, _, _ := strings.Cut(entries, ".tags.")
	pull := value.Document{
		{Key: "$pull", Value: value.Document{{Key: entries, Value: entry}}.Close()},
		{Key: "$max", Value: value.Document{{Key: lock + ".broken", Value: value.Get(entry, "fence")}}.Close()},
	}
	statement := value.Document{{Key: "q", Value: guard.Close()}, {Key: "u", Value: pull.Close()}}
	for _, namespace := range among {
		database, name, _ := strings.Cut(namespace, ".")
		reply := run(value.Document{
			{Key: "update", Value: value.String(name)},
			{Key: "updates", Value: value.Array([]bson.RawValue{statement.Close()})},
			{Key: "$db", Value: value.String(database)},
		})
		if n, _ := value.Whole(value.Get(reply, "n")); n > 0 {
			return true
		}
	}
	return false
}
