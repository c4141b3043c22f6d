package store

import (
	"bytes"
	"maps"
	"slices"
	"time"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// After executes a command at the time now on a copy of the store, and returns the
// reply and the copy, or the store itself if the command has changed nothing.
func (s *Store) After(now time.Time, document value.Document) (reply bson.RawValue, after *Store) {
	s.mu.Lock()
	defer s.mu.Unlock()
	after = &Store{Strict: s.Strict, collections: maps.Clone(s.collections)}
	c := command{database: value.Text(document.Get("$db")), Document: document}
	before := s.collections[c.namespace()]
	if before != nil {
		after.collections[c.namespace()] = before.clone()
	}
	reply = after.Run(now, document)
	unchanged := func(a, b *collection) bool { return a == b || a == before && before.equal(b) }
	if maps.EqualFunc(s.collections, after.collections, unchanged) {
		return reply, s
	}
	return reply, after
}

// clone is a copy that can be changed. The documents are shared: they are replaced,
// and never changed.
func (c *collection) clone() *collection {
	next := &collection{namespace: c.namespace, unique: slices.Clone(c.unique), byID: make(map[string][]*record, len(c.byID))}
	for _, r := range c.records {
		same := &record{r.document}
		next.records = append(next.records, same)
		key := bucket(value.Get(r.document, "_id"))
		next.byID[key] = append(next.byID[key], same)
	}
	return next
}

func (c *collection) equal(other *collection) bool {
	return len(c.unique) == len(other.unique) && slices.EqualFunc(c.records, other.records, func(a, b *record) bool {
		return bytes.Equal(a.document.Value, b.document.Value)
	})
}
