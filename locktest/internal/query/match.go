package query

import (
	"strings"

	"github.com/doclock/doclock/locktest/internal/expr"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Query is one command's use of filters.
type Query struct {
	Now bson.RawValue // for $expr
	Let bson.RawValue // the command's variables, for $expr
}

// Match reports whether a document matches a filter.
func (q Query) Match(filter, document bson.RawValue) (bool, error) {
	m := &matcher{query: q}
	matches := m.document(filter, document)
	return matches, m.err
}

// MatchValue reports whether a value passes a condition: operators, or a value
// that it must equal.
func (q Query) MatchValue(condition, v bson.RawValue) (bool, error) {
	m := &matcher{query: q}
	matches := m.field(v, nil, condition)
	return matches, m.err
}

// IsOperators reports whether a condition consists of operators.
func IsOperators(condition bson.RawValue) bool {
	for key := range value.Fields(condition) {
		return value.IsDocument(condition) && strings.HasPrefix(key, "$")
	}
	return false
}

// matcher remembers the first error. No result after it has a meaning.
type matcher struct {
	query Query
	err   error
}

func (m *matcher) refuse(err error) bool {
	if m.err == nil {
		m.err = err
	}
	return false
}

func (m *matcher) refusef(code int32, format string, args ...any) bool {
	return m.refuse(value.Refuse(code, format, args...))
}

// document matches all parts of a filter.
func (m *matcher) document(filter, document bson.RawValue) bool {
	for key, condition := range value.Fields(filter) {
		matches := false
		if strings.HasPrefix(key, "$") {
			matches = m.joint(key, condition, document)
		} else {
			matches = m.field(document, strings.Split(key, "."), condition)
		}
		if !matches || m.err != nil {
			return false
		}
	}
	return true
}

// joint matches the operators that stand where a field's name would.
func (m *matcher) joint(name string, condition, document bson.RawValue) bool {
	switch name {
	case "$and":
		return m.each(name, condition, document, false) == 0
	case "$or":
		return m.each(name, condition, document, true) > 0
	case "$nor":
		return m.each(name, condition, document, true) == 0
	case "$expr":
		scope := (&expr.Scope{Root: document, Now: m.query.Now}).With(m.query.Let)
		v, err := scope.Eval(condition)
		if err != nil {
			return m.refuse(err)
		}
		return value.Truth(v)
	case "$comment":
		return true
	default:
		return m.refuse(value.Unsupported("the query operator %s", name))
	}
}

// each counts the filters of a list that match, or don't, and ends with the first
// one.
func (m *matcher) each(name string, list, document bson.RawValue, matching bool) (n int) {
	filters := value.Elements(list)
	if len(filters) == 0 {
		m.refusef(value.BadValue, "%s must be a nonempty array", name)
	}
	for _, filter := range filters {
		if m.document(filter, document) == matching {
			return 1
		}
	}
	return 0
}

// field matches what a path leads to with a condition.
func (m *matcher) field(v bson.RawValue, path []string, condition bson.RawValue) bool {
	if !IsOperators(condition) {
		return find(v, path, some(m.equals(condition)))
	}
	for name, operand := range value.Fields(condition) {
		if !m.operator(v, path, name, operand, condition) || m.err != nil {
			return false
		}
	}
	return true
}

// equals is the test of equality. A missing value equals null; a regular
// expression equals the texts that match it.
func (m *matcher) equals(wanted bson.RawValue) func(bson.RawValue) bool {
	switch wanted.Type {
	case bson.TypeNull:
		return value.IsNullish
	case bson.TypeRegex:
		pattern, flags := wanted.Regex()
		return m.matches(pattern, flags)
	default:
		return func(v bson.RawValue) bool { return value.Equal(v, wanted) }
	}
}
