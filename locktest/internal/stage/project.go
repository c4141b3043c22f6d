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

// projection is one that was parsed.
type projection struct {
	in, out tree
	id      bool
	more    []added
}

// added is a field that is computed.
type added struct {
	path       []string
	expression bson.RawValue
}

// CheckProjection refuses a projection that a server would not parse, or that is
// not known.
func CheckProjection(spec bson.RawValue) error {
	if _, err := parse(spec); err != nil {
		return err
	}
	return checkComputed(spec)
}

func parse(spec bson.RawValue) (p projection, err error) {
	p = projection{in: tree{}, out: tree{}, id: true}
	err = computed(spec, nil, func(path []string, e bson.RawValue) error {
		whole := strings.Join(path, ".")
		switch flag := value.IsNumber(e) || e.Type == bson.TypeBoolean; {
		case strings.Contains(whole, "$"):
			return value.Unsupported("the projection of %q", whole)
		case flag && whole == "_id":
			p.id = value.Truth(e)
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
	if err == nil && len(p.out) > 0 && len(p.in)+len(p.more) > 0 {
		err = value.Refuse(31254, "Cannot do exclusion and inclusion in one projection")
	}
	return p, err
}

// Project is the part of a document that a projection asks for, which
// [CheckProjection] has passed: the fields that it names and those that it
// computes, or all but those that it names.
func Project(spec, document bson.RawValue, q query.Query) (bson.RawValue, error) {
	if len(value.Open(spec)) == 0 {
		return document, nil
	}
	p, err := parse(spec)
	switch {
	case err != nil:
		return value.Missing, err
	case len(p.in)+len(p.more) == 0 && (len(p.out) > 0 || !p.id):
		if !p.id {
			p.out.add([]string{"_id"})
		}
		return excluded(document, p.out), nil
	case p.id:
		p.in.add([]string{"_id"})
	}
	result := included(document, p.in)
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
