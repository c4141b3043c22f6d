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

// add adds a path. It is not added if it is there, or leads into another one.
func (t tree) add(path []string) (added bool) {
	inner, there := t[path[0]]
	switch {
	case there && (len(path) == 1 || len(inner) == 0):
		return false
	case !there:
		inner = tree{}
		t[path[0]] = inner
	}
	return len(path) == 1 || inner.add(path[1:])
}

// Projection is what a find, a findAndModify or a stage asks for: the fields that it
// names and those that it computes, or all but those that it names.
type Projection struct {
	including bool // what it names, and not all but that
	in, out   tree
	more      []added
}

// added is a field that is computed.
type added struct {
	path       []string
	expression bson.RawValue
}

// ParseProjection refuses one that a server would not parse, or that is not known.
func ParseProjection(spec bson.RawValue) (p Projection, err error) {
	p = Projection{in: tree{}, out: tree{}}
	id := value.Missing
	err = checkComputed(spec, func(path []string, e bson.RawValue) error {
		whole := strings.Join(path, ".")
		switch flag := value.IsNumber(e) || e.Type == bson.TypeBoolean; {
		case strings.Contains(whole, "$"):
			return value.Unsupported("the projection of %q", whole)
		case flag && whole == "_id":
			id = e
		case flag && value.Truth(e):
			p.in.add(path)
		case flag:
			p.out.add(path)
		default:
			if op := value.Open(e); len(op) == 1 && (op[0].Key == "$elemMatch" || op[0].Key == "$slice" && !value.IsArray(op[0].Value) || op[0].Key == "$meta") {
				return value.Unsupported("%s in a projection", op[0].Key)
			}
			p.more = append(p.more, added{path, e})
		}
		return nil
	})
	p.including = len(p.in)+len(p.more) > 0 || value.Truth(id) && len(p.out) == 0
	switch {
	case err == nil && p.including && len(p.out) > 0:
		err = value.Refuse(31254, "Cannot do exclusion and inclusion in one projection")
	case p.including && (value.IsMissing(id) || value.Truth(id)):
		p.in.add([]string{"_id"})
	case !p.including && !value.IsMissing(id) && !value.Truth(id):
		p.out.add([]string{"_id"})
	}
	return p, err
}

// Of is the part of a document that the projection asks for.
func (p Projection) Of(document bson.RawValue, q query.Query) (bson.RawValue, error) {
	if !p.including {
		return excluded(document, p.out), nil
	}
	result := value.Document{}.Close()
	if len(p.in) > 0 {
		result = included(document, p.in)
	}
	scope := (&expr.Scope{Root: document, Now: q.Now}).With(q.Let)
	for _, a := range p.more {
		v, err := scope.Eval(a.expression)
		if err != nil {
			return value.Missing, err
		}
		result = put(result, a.path, v)
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
