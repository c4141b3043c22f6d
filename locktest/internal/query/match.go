package query

import (
	"cmp"
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/expr"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Query is one command's use of filters.
type Query struct {
	Now bson.RawValue  // for $expr
	Let value.Document // the command's variables, for $expr

	Strict bool // see [expr.Scope]
}

// Match reports whether a document matches a filter, which [Query.Check] has passed. Only
// an $expr can have an error.
func (q Query) Match(filter, document bson.RawValue) (bool, error) {
	m := &matcher{query: q}
	matches := m.document(filter, document)
	return matches, m.err
}

// MatchValue reports whether a value passes a condition, which [CheckCondition] has
// passed: operators, or a value that it must equal.
func (q Query) MatchValue(condition, v bson.RawValue) bool {
	return (&matcher{query: q}).field(v, nil, condition)
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
	whole bool // an array counts as itself, and its elements don't: an $elemMatch has chosen it
	err   error
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
		return !m.filters(condition, document, false)
	case "$or":
		return m.filters(condition, document, true)
	case "$nor":
		return !m.filters(condition, document, true)
	case "$expr":
		scope := (&expr.Scope{Root: document, Now: m.query.Now, Strict: m.query.Strict}).With(m.query.Let)
		v, err := scope.Eval(condition)
		m.err = cmp.Or(m.err, err)
		return err == nil && value.Truth(v)
	default: // $comment
		return true
	}
}

// filters reports whether a filter of a list matches, or one doesn't.
func (m *matcher) filters(list, document bson.RawValue, matching bool) bool {
	return slices.ContainsFunc(value.Elements(list), func(filter bson.RawValue) bool {
		return m.document(filter, document) == matching
	})
}

// field matches what a path leads to with a condition.
func (m *matcher) field(v bson.RawValue, path []string, condition bson.RawValue) bool {
	if !IsOperators(condition) {
		return find(v, path, m.some(equals(condition)))
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
func equals(wanted bson.RawValue) func(bson.RawValue) bool {
	if pattern, flags, ok := wanted.RegexOK(); ok {
		return matching(pattern, flags)
	}
	return exactly(wanted)
}

// exactly is the test of equality of an operator, to which a regular expression is
// a value.
func exactly(wanted bson.RawValue) func(bson.RawValue) bool {
	if value.IsNullish(wanted) {
		return value.IsNullish
	}
	return func(v bson.RawValue) bool { return value.Equal(v, wanted) }
}
