package stage

import (
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/expr"
	"github.com/doclock/doclock/locktest/internal/query"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// tree has the paths that a projection names, by their segments.
type tree map[string]tree

// add adds a path. It returns the code of the refusal of one that is there, or that
// leads into another one; 0 is none.
func (t tree) add(path []string) (code int32) {
	inner, there := t[path[0]]
	switch {
	case there && len(path) == 1:
		return 31250
	case there && len(inner) == 0:
		return 31249
	case !there:
		inner = tree{}
		t[path[0]] = inner
	}
	if len(path) == 1 {
		return 0
	}
	return inner.add(path[1:])
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

// parser reads a projection. The first field but the _id decides which kind it is.
type parser struct {
	Projection
	seen    tree
	id      bson.RawValue
	decided bool
}

// ParseProjection refuses one that a server would not parse, or that is not known.
func ParseProjection(spec bson.RawValue) (Projection, error) {
	if !value.IsDocument(spec) && !value.IsMissing(spec) {
		return Projection{}, value.Refuse(value.TypeMismatch, "a projection must be a document, and is of type %s", value.TypeName(spec))
	}
	p := &parser{Projection: Projection{in: tree{}, out: tree{}}, seen: tree{}}
	if err := p.parse(spec, nil); err != nil {
		return p.Projection, err
	}
	if !p.decided {
		p.including = value.Truth(p.id)
	}
	switch {
	case p.including && (value.IsMissing(p.id) || value.Truth(p.id)):
		p.in.add([]string{"_id"})
	case !p.including && !value.IsMissing(p.id) && !value.Truth(p.id):
		p.out.add([]string{"_id"})
	}
	return p.Projection, nil
}

// parse reads the fields of a specification at a path.
func (p *parser) parse(spec bson.RawValue, at []string) error {
	for key, e := range value.Fields(spec) {
		path := append(at[:len(at):len(at)], strings.Split(key, ".")...)
		err := p.field(path, e)
		switch {
		case err != nil || !value.IsDocument(e) || query.IsOperators(e):
		case len(value.Open(e)) == 0:
			err = value.Refuse(51270, "An empty sub-projection is not a valid value. Found empty object at path %s", strings.Join(path, "."))
		default:
			err = p.parse(e, path)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// field reads one field, unless it has more fields.
func (p *parser) field(path []string, e bson.RawValue) error {
	whole := strings.Join(path, ".")
	if slices.Contains(path, "$") {
		return value.Unsupported("the projection of %q", whole)
	}
	if err := checkNames(path); err != nil {
		return err
	}
	op := value.Open(e)
	switch {
	case value.IsNumber(e) || e.Type == bson.TypeBoolean:
		return p.flag(path, e)
	case value.IsDocument(e) && !query.IsOperators(e):
		return nil
	case len(op) == 1 && (op[0].Key == "$elemMatch" || op[0].Key == "$slice" && !value.IsArray(op[0].Value) || op[0].Key == "$meta"):
		return value.Unsupported("%s in a projection", op[0].Key)
	case p.decided && !p.including && value.IsDocument(e):
		return value.Refuse(31252, "Cannot use expression other than $meta in exclusion projection")
	case p.decided && !p.including:
		if err := p.place(path); err != nil {
			return err
		}
		return value.Refuse(31310, "Cannot use an expression %s: %s in an exclusion projection", whole, e)
	}
	p.decided, p.including = true, true
	p.more = append(p.more, added{path, e})
	if err := expr.Check(e); err != nil {
		return err
	}
	return p.place(path)
}

// flag reads a field that is included or excluded.
func (p *parser) flag(path []string, e bson.RawValue) error {
	if err := p.place(path); err != nil {
		return err
	}
	including, whole := value.Truth(e), strings.Join(path, ".")
	switch {
	case whole == "_id":
		p.id = e
		return nil
	case p.decided && including && !p.including:
		return value.Refuse(31253, "Cannot do inclusion on field %s in exclusion projection", whole)
	case p.decided && !including && p.including:
		return value.Refuse(31254, "Cannot do exclusion on field %s in inclusion projection", whole)
	case including:
		p.in.add(path)
	default:
		p.out.add(path)
	}
	p.decided, p.including = true, including
	return nil
}

func (p *parser) place(path []string) error {
	if code := p.seen.add(path); code != 0 {
		return value.Refuse(code, "Path collision at %s", strings.Join(path, "."))
	}
	return nil
}

// checkNames refuses a path that no field can have.
func checkNames(path []string) error {
	for _, name := range path {
		if name == "" && len(path) == 1 {
			return value.Refuse(40352, "FieldPath cannot be constructed with empty string")
		}
		if err := value.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

// Fold computes in advance what it can of the expressions: see [expr.Scope.Fold].
func (p Projection) Fold(q query.Query) (err error) {
	for i, a := range p.more {
		if p.more[i].expression, err = scope(q, value.Missing).Fold(a.expression); err != nil {
			return err
		}
	}
	return nil
}

func scope(q query.Query, document bson.RawValue) *expr.Scope {
	return (&expr.Scope{Root: document, Now: q.Now, Strict: q.Strict}).With(q.Let)
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
	scope := scope(q, document)
	for _, a := range p.more {
		result = put(result, a.path, func() bson.RawValue { return scope.Value(a.expression) })
	}
	return result, scope.Err()
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
