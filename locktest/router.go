package locktest

import (
	"maps"
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/store"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const shardKeyNotFound = 61

// route is what a router answers by itself, if it does. A command for one document whose filter doesn't have the shard key is
// refused, as by MongoDB through 6.0. It needs the mutex.
func (s *Server) route(command value.Document) bson.RawValue {
	name, namespace := command[0].Key, value.Text(command.Get("$db"))+"."+value.Text(command[0].Value)
	switch name {
	case "enableSharding":
		return succeeded.Close()
	case "shardCollection":
		s.keys[value.Text(command[0].Value)] = value.Names(command.Get("key"))
		return succeeded.Close()
	}
	if key := s.keys[namespace]; len(key) > 0 {
		return unrouted(command, key)
	}
	return value.Missing
}

// forget forgets the shard keys of what a command has dropped.
func (s *Server) forget(command value.Document) {
	database := value.Text(command.Get("$db")) + "."
	switch command[0].Key {
	case "drop":
		delete(s.keys, database+value.Text(command[0].Value))
	case "dropDatabase":
		maps.DeleteFunc(s.keys, func(namespace string, _ []string) bool { return strings.HasPrefix(namespace, database) })
	}
}

var succeeded = value.Document{{Key: "ok", Value: value.Double(1)}}

// unrouted is the reply if a filter doesn't say which shard has the document, or a unique index would have to be on all.
// Then no statement of the command is executed. (A router of MongoDB executes the others, if the command is unordered.)
func unrouted(command value.Document, key []string) bson.RawValue {
	name := command[0].Key
	if name == "findAndModify" && !pins(command.Get("query"), key) {
		return store.Refused(value.Refuse(shardKeyNotFound, "Query for sharded findAndModify must contain the shard key"))
	}
	for _, spec := range value.Elements(command.Get("indexes")) {
		keys := value.Names(value.Get(spec, "key"))
		if value.Truth(value.Get(spec, "unique")) && len(keys) > 0 && keys[0] != "_id" && !slices.Equal(key, keys[:min(len(key), len(keys))]) {
			return store.Refused(value.Refuse(value.CannotCreateIndex, "cannot create unique index over %s with shard key pattern %q", value.Get(spec, "key"), key))
		}
	}
	if name != "update" && name != "delete" {
		return value.Missing
	}
	var lacking []bson.RawValue
	for i, statement := range value.Elements(command.Get(name + "s")) {
		filter, upserts := value.Get(statement, "q"), value.Truth(value.Get(statement, "upsert"))
		many := value.Truth(value.Get(statement, "multi"))
		if limit, _ := value.Whole(value.Get(statement, "limit")); name == "delete" {
			many = limit == 0
		}
		if many || pins(filter, key) || !upserts && pins(filter, []string{"_id"}) {
			continue
		}
		lacking = append(lacking, value.Document{
			{Key: "index", Value: value.Int(int32(i))},
			{Key: "code", Value: value.Int(shardKeyNotFound)},
			{Key: "errmsg", Value: value.String("A single " + name + " on a sharded collection must contain an exact match on _id or contain the shard key")},
		}.Close())
	}
	if lacking == nil {
		return value.Missing
	}
	return append(value.Document{
		{Key: "n", Value: value.Int(0)},
		{Key: "nModified", Value: value.Int(0)},
		{Key: "writeErrors", Value: value.Array(lacking)},
	}, succeeded...).Close()
}

// pins reports whether a filter demands equality on every field of a key, at its top level or in an $and there.
func pins(filter bson.RawValue, key []string) bool {
	equal := map[string]bson.RawValue{}
	equalities(filter, equal)
	return !slices.ContainsFunc(key, func(field string) bool { return !pinned(equal, field) })
}

func equalities(filter bson.RawValue, equal map[string]bson.RawValue) {
	for field, condition := range value.Fields(filter) {
		switch {
		case field == "$and":
			for _, clause := range value.Elements(condition) {
				equalities(clause, equal)
			}
		case strings.HasPrefix(field, "$"):
		default:
			if v := equality(condition); !value.IsMissing(v) {
				equal[field] = v
			}
		}
	}
}

// equality is the value that a condition demands. An array can't be a shard key's value.
func equality(condition bson.RawValue) bson.RawValue {
	if condition.Type == bson.TypeRegex || value.IsArray(condition) {
		return value.Missing
	}
	if fields := value.Open(condition); len(fields) > 0 && strings.HasPrefix(fields[0].Key, "$") {
		if v := fields.Get("$eq"); !value.IsMissing(v) {
			return equality(v)
		}
		return value.Missing
	}
	return condition
}

// pinned looks for a field's value, or for the value of a document that has the field.
func pinned(equal map[string]bson.RawValue, field string) bool {
	for path, v := range equal {
		rest, inside := strings.CutPrefix(field, path+".")
		if path == field {
			return true
		}
		if inside && value.IsDocument(v) {
			if _, err := bson.Raw(v.Value).LookupErr(strings.Split(rest, ".")...); err == nil {
				return true
			}
		}
	}
	return false
}
