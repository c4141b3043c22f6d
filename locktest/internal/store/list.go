package store

import (
	"maps"
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// listCollections has the names of a database's collections, and no more of them.
func (c *command) listCollections() (value.Document, error) {
	var all []bson.RawValue
	for _, namespace := range slices.Sorted(maps.Keys(c.store.collections)) {
		if name, here := strings.CutPrefix(namespace, c.database+"."); here {
			all = append(all, value.Document{
				{Key: "name", Value: value.String(name)}, {Key: "type", Value: value.String("collection")},
			}.Close())
		}
	}
	kept, err := c.matched(c.Get("filter"), all)
	return c.cursor(kept), err
}

// listDatabases has the names of the databases that have a collection.
func (c *command) listDatabases() (value.Document, error) {
	var all []bson.RawValue
	last := ""
	for _, namespace := range slices.Sorted(maps.Keys(c.store.collections)) {
		if name, _, _ := strings.Cut(namespace, "."); name != last {
			last = name
			all = append(all, value.Document{{Key: "name", Value: value.String(name)}}.Close())
		}
	}
	kept, err := c.matched(c.Get("filter"), all)
	return value.Document{{Key: "databases", Value: value.Array(kept)}}, err
}
