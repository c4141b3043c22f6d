package expr

import (
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Scope is what an expression is evaluated in. It remembers the first error; each
// result after that means nothing.
type Scope struct {
	Root bson.RawValue // the document
	Now  bson.RawValue // the server's time

	vars *variable
	err  error
}

// variable is the newest of a list of variables. An inner one hides an outer one.
type variable struct {
	name  string
	value bson.RawValue
	outer *variable
}

// With adds the variables of a command's `let`.
func (s *Scope) With(let bson.RawValue) *Scope {
	for name, v := range value.Fields(let) {
		s.bind(name, v)
	}
	return s
}

// bind adds a variable; the result undoes that.
func (s *Scope) bind(name string, v bson.RawValue) (outer *variable) {
	outer = s.vars
	s.vars = &variable{name, v, outer}
	return outer
}

// Eval is the value of an expression. It may be missing.
func (s *Scope) Eval(expression bson.RawValue) (bson.RawValue, error) {
	v := s.eval(expression)
	return v, s.err
}

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
		if len(d) == 0 && strings.HasPrefix(key, "$") {
			return s.operator(key, field)
		}
		if v := s.eval(field); !value.IsMissing(v) {
			d = append(d, value.Field{Key: key, Value: v})
		}
	}
	return d.Close()
}

func (s *Scope) operator(name string, operands bson.RawValue) bson.RawValue {
	f, known := operators[name]
	if !known {
		return s.refuse(value.Unsupported("the expression %s", name))
	}
	return f(s, operands)
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
// found in its elements.
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
		if v := Path(element, path); !value.IsMissing(v) {
			found = append(found, v)
		}
	}
	return value.Array(found)
}

// operands are the values of an operator's operands.
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

// exactly are a fixed number of operands.
func (s *Scope) exactly(n int, name string, e bson.RawValue) []bson.RawValue {
	all := s.operands(e)
	if len(all) != n {
		s.refusef(16020, "Expression %s takes exactly %d arguments. %d were passed in.", name, n, len(all))
		return make([]bson.RawValue, n)
	}
	return all
}
