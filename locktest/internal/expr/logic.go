package expr

import (
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func (s *Scope) let(e bson.RawValue) bson.RawValue {
	outer := s.vars
	defer func() { s.vars = outer }()
	inner := outer
	for name, v := range value.Fields(value.Get(e, "vars")) { // none of them sees another
		inner = &variable{name, s.eval(v), inner}
	}
	s.vars = inner
	return s.eval(value.Get(e, "in"))
}

func (s *Scope) cond(e bson.RawValue) bson.RawValue {
	var test, then, other bson.RawValue
	if value.IsDocument(e) {
		test, then, other = value.Get(e, "if"), value.Get(e, "then"), value.Get(e, "else")
	} else {
		branches := value.Elements(e)
		test, then, other = branches[0], branches[1], branches[2]
	}
	if value.Truth(s.eval(test)) {
		return s.eval(then)
	}
	return s.eval(other)
}

func (s *Scope) switches(e bson.RawValue) bson.RawValue {
	for _, branch := range value.Elements(value.Get(e, "branches")) {
		if value.Truth(s.eval(value.Get(branch, "case"))) {
			return s.eval(value.Get(branch, "then"))
		}
	}
	other := value.Get(e, "default")
	if value.IsMissing(other) {
		return s.refusef(40066, "$switch could not find a matching branch for an input, and no default was specified.")
	}
	return s.eval(other)
}

func (s *Scope) ifNull(e bson.RawValue) (v bson.RawValue) {
	for operand := range s.each(e) {
		if v = operand; !value.IsNullish(v) {
			return v
		}
	}
	return v
}

// junction is $and or $or. It ends with the first operand that decides.
func (s *Scope) junction(e bson.RawValue, decides bool) bson.RawValue {
	for operand := range s.each(e) {
		if value.Truth(operand) == decides {
			return value.Bool(decides)
		}
	}
	return value.Bool(!decides)
}
