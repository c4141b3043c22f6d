package expr

import (
	"iter"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Scope is what an expression is evaluated in. It remembers the first error; each
// result after that means nothing.
type Scope struct {
	Root bson.RawValue // the document
	Now  bson.RawValue // the server's time

	// Strict reads MongoDB's manual as it may be read: each operand is evaluated, needed
	// or not, but for the branches of $cond and $switch. And two texts that a collation
	// might make equal may not be compared.
	Strict bool

	vars *variable
	err  error
}

// variable is the newest of a list of variables. An inner one hides an outer one.
type variable struct {
	name  string
	value bson.RawValue
	outer *variable
}

// With adds the variables of a command's `let`, which [Let] has computed.
func (s *Scope) With(let value.Document) *Scope {
	for _, v := range let {
		s.bind(v.Key, v.Value)
	}
	return s
}

// bind adds a variable; the result undoes that.
func (s *Scope) bind(name string, v bson.RawValue) (outer *variable) {
	outer = s.vars
	s.vars = &variable{name, v, outer}
	return outer
}

// Eval is the value of an expression, which [Check] has passed. It may be missing.
func (s *Scope) Eval(expression bson.RawValue) (bson.RawValue, error) {
	v := s.eval(expression)
	return v, s.err
}

// Value and Err are the value of one expression of several, and the first error.
func (s *Scope) Value(expression bson.RawValue) bson.RawValue { return s.eval(expression) }
func (s *Scope) Err() error                                   { return s.err }

// refuse remembers an error.
func (s *Scope) refuse(err error) bson.RawValue {
	if s.err == nil {
		s.err = err
	}
	return value.Missing
}

func (s *Scope) refusef(code int32, format string, args ...any) bson.RawValue {
	return s.refuse(value.Refuse(code, format, args...))
}

func (s *Scope) eval(e bson.RawValue) bson.RawValue {
	switch e.Type {
	case bson.TypeString:
		text := e.StringValue()
		switch {
		case strings.HasPrefix(text, "$$"):
			name, path, nested := strings.Cut(text[2:], ".")
			v := s.variable(name)
			if !nested {
				return v
			}
			return Path(v, path)
		case strings.HasPrefix(text, "$"):
			return Path(s.Root, text[1:])
		default:
			return e
		}
	case bson.TypeArray:
		elements := value.Elements(e)
		for i, element := range elements {
			elements[i] = s.eval(element)
		}
		return value.Array(elements)
	case bson.TypeEmbeddedDocument:
		return s.document(e)
	default:
		return e
	}
}

// document is an operator with its operands, or a document of expressions.
func (s *Scope) document(e bson.RawValue) bson.RawValue {
	var d value.Document
	for key, field := range value.Fields(e) {
		if strings.HasPrefix(key, "$") {
			return operators[key](s, field)
		}
		if v := s.eval(field); !value.IsMissing(v) {
			d = append(d, value.Field{Key: key, Value: v})
		}
	}
	return d.Close()
}

func (s *Scope) variable(name string) bson.RawValue {
	for v := s.vars; v != nil; v = v.outer {
		if v.name == name {
			return v.value
		}
	}
	switch name {
	case "ROOT", "CURRENT":
		return s.Root
	case "NOW":
		return s.Now
	case "REMOVE":
		return value.Missing
	default:
		return s.refusef(17276, "Use of undefined variable: %s", name)
	}
}

// Path is what a path leads to. Through an array it leads to an array of what is
// found in its elements that are documents.
func Path(v bson.RawValue, path string) bson.RawValue {
	for {
		if value.IsArray(v) {
			return inEach(v, path)
		}
		key, rest, nested := strings.Cut(path, ".")
		v = value.Get(v, key)
		if !nested {
			return v
		}
		path = rest
	}
}

func inEach(array bson.RawValue, path string) bson.RawValue {
	var found []bson.RawValue
	for _, element := range value.Elements(array) {
		if v := Path(element, path); value.IsDocument(element) && !value.IsMissing(v) {
			found = append(found, v)
		}
	}
	return value.Array(found)
}

// each are the values of an operator's operands. Those after the last one that is
// asked for are not computed.
func (s *Scope) each(e bson.RawValue) iter.Seq[bson.RawValue] {
	return func(yield func(bson.RawValue) bool) {
		if !value.IsArray(e) {
			yield(s.eval(e))
			return
		}
		asked := true
		for _, v := range value.Fields(e) {
			if !asked && !s.Strict {
				return
			}
			v = s.eval(v)
			asked = asked && yield(v)
		}
	}
}

// operands are the values of all operands of an operator.
func (s *Scope) operands(e bson.RawValue) []bson.RawValue {
	if !value.IsArray(e) {
		return []bson.RawValue{s.eval(e)}
	}
	all := value.Elements(e)
	for i, v := range all {
		all[i] = s.eval(v)
	}
	return all
}
