package stage

import (
	"strings"

	"github.com/doclock/doclock/locktest/internal/expr"
	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// tree has the paths that a projection names, by their segments.
type tree map[string]tree

func (t tree) add(path []string) {
	if len(path) == 0 {
		return
	}
	if t[path[0]] == nil {
		t[path[0]] = tree{}
	}
	t[path[0]].add(path[1:])
}

// Project is the part of a document that a projection asks for: the fields that
// it names and those that it computes, or all but those that it names.
func Project(spec, document bson.RawValue, q query.Query) (bson.RawValue, error) {
	if len(value.Open(spec)) == 0 {
		return document, nil
	}
	scope := (&expr.Scope{Root: document, Now: q.Now}).With(q.Let)
	in, out, id := tree{}, tree{}, true
	type added struct {
		path []string
		v    bson.RawValue
	}
	var more []added
	err := computed(spec, nil, func(path []string, e bson.RawValue) error {
		whole := strings.Join(path, ".")
		switch flag := value.IsNumber(e) || e.Type == bson.TypeBoolean; {
		case strings.Contains(whole, "$"):
			return value.Unsupported("the projection of %q", whole)
		case flag && whole == "_id":
			id = value.Truth(e)
		case flag && value.Truth(e):
			in.add(path)
		case flag:
			out.add(path)
		default:
			if op := value.Open(e); len(op) == 1 && (op[0].Key == "$elemMatch" || op[0].Key == "$slice" && !value.IsArray(op[0].Value) || op[0].Key == "$meta") {
				return value.Unsupported("%s in a projection", op[0].Key)
			}
			v, err := scope.Eval(e)
			if err != nil {
				return err
			}
			more = append(more, added{path, v})
		}
		return nil
	})
	switch {
	case err != nil:
		return value.Missing, err
	case len(out) > 0 && len(in)+len(more) > 0:
		return value.Missing, value.Refuse(31254, "Cannot do exclusion and inclusion in one projection")
	case len(in)+len(more) == 0 && (len(out) > 0 || !id):
		if !id {
			out.add([]string{"_id"})
		}
		return excluded(document, out), nil
	case id:
		in.add([]string{"_id"})
	}
	result := included(document, in)
	for _, a := range more {
		result = put(result, a.path, a.v)
	}
	return result, nil
}

// included is what of a value the paths lead to. Other values than documents have
// no place beside a path that goes on.
func included(v bson.RawValue, paths tree) bson.RawValue {
	switch {
	case len(paths) == 0:
		return v
	case value.IsArray(v):
		var kept []bson.RawValue
		for _, element := range value.Elements(v) {
			if k := included(element, paths); !value.IsMissing(k) {
				kept = append(kept, k)
			}
		}
		return value.Array(kept)
	case !value.IsDocument(v):
		return value.Missing
	}
	var kept value.Document
	for key, field := range value.Fields(v) {
		if inner, named := paths[key]; named {
			if k := included(field, inner); !value.IsMissing(k) {
				kept = append(kept, value.Field{Key: key, Value: k})
			}
		}
	}
	return kept.Close()
}

func excluded(v bson.RawValue, paths tree) bson.RawValue {
	switch {
	case value.IsArray(v):
		elements := value.Elements(v)
		for i, element := range elements {
			elements[i] = excluded(element, paths)
		}
		return value.Array(elements)
	case !value.IsDocument(v):
		return v
	}
	var kept value.Document
	for key, field := range value.Fields(v) {
		inner, named := paths[key]
		switch {
		case !named:
			kept = append(kept, value.Field{Key: key, Value: field})
		case len(inner) > 0:
			kept = append(kept, value.Field{Key: key, Value: excluded(field, inner)})
		}
	}
	return kept.Close()
}
