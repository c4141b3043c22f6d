package routertest

import (
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// hasKey reports whether a filter demands equality on every field of a shard
// key, at its top level, or in an $and there.
func hasKey(filter bson.D, key []string) bool {
	equal := map[string]any{}
	equalities(filter, equal)
	for _, field := range key {
		if !pinned(equal, field) {
			return false
		}
	}
	return true
}

func equalities(filter bson.D, equal map[string]any) {
	for _, e := range filter {
		switch {
		case e.Key == "$and":
			clauses, _ := e.Value.(bson.A)
			for _, c := range clauses {
				clause, _ := c.(bson.D)
				equalities(clause, equal)
			}
		case strings.HasPrefix(e.Key, "$"):
		default:
			if v, ok := equality(e.Value); ok {
				equal[e.Key] = v
			}
		}
	}
}

// equality is the value that a condition demands.
func equality(condition any) (value any, ok bool) {
	switch c := condition.(type) {
	case bson.Regex, bson.A: // an array can't be a shard key's value
		return nil, false
	case bson.D:
		if len(c) > 0 && strings.HasPrefix(c[0].Key, "$") {
			for _, e := range c {
				if e.Key == "$eq" {
					return equality(e.Value)
				}
			}
			return nil, false
		}
	}
	return condition, true
}

// pinned looks for a field's value, or for the value of a document that has the
// field.
func pinned(equal map[string]any, field string) bool {
	if _, found := equal[field]; found {
		return true
	}
	for i := range field {
		if field[i] != '.' {
			continue
		}
		if parent, found := equal[field[:i]].(bson.D); found {
			return pinned(fields(parent), field[i+1:])
		}
	}
	return false
}

func fields(doc bson.D) map[string]any {
	m := map[string]any{}
	for _, e := range doc {
		m[e.Key] = e.Value
	}
	return m
}

func lookup(doc bson.D, key string) any {
	for _, e := range doc {
		if e.Key == key {
			return e.Value
		}
	}
	return nil
}

func text(doc bson.D, key string) string {
	s, _ := lookup(doc, key).(string)
	return s
}
