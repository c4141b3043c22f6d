package expr

import (
	"cmp"
	"slices"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func (s *Scope) size(e bson.RawValue) bson.RawValue {
	v := s.operands(e)[0]
	if !value.IsArray(v) {
		return s.refusef(17124, "The argument to $size must be an array, but was of type: %s", value.TypeName(v))
	}
	return value.Int(int32(len(value.Elements(v))))
}

func (s *Scope) elementAt(e bson.RawValue) bson.RawValue {
	v := s.operands(e)
	if value.IsNullish(v[0]) || value.IsNullish(v[1]) {
		return value.Null
	}
	n, whole := value.Int32(v[1])
	switch {
	case !value.IsArray(v[0]):
		return s.refusef(28689, "$arrayElemAt's first argument must be an array, but is %s", value.TypeName(v[0]))
	case !value.IsNumber(v[1]):
		return s.refusef(28690, "$arrayElemAt's second argument must be a numeric value, but is %s", value.TypeName(v[1]))
	case !whole:
		return s.refusef(28691, "$arrayElemAt's second argument must be representable as a 32-bit integer")
	}
	all := value.Elements(v[0])
	if n < 0 {
		n += int64(len(all))
	}
	if n < 0 || n >= int64(len(all)) {
		return value.Missing
	}
	return all[n]
}

func (s *Scope) concatArrays(e bson.RawValue) bson.RawValue {
	var all []bson.RawValue
	for v := range s.each(e) {
		switch {
		case value.IsNullish(v):
			return value.Null
		case !value.IsArray(v):
			return s.refusef(28664, "$concatArrays only supports arrays, not %s", value.TypeName(v))
		}
		all = append(all, value.Elements(v)...)
	}
	return value.Array(all)
}

// slice takes an array and a number, or an array, a position and a number.
func (s *Scope) slice(e bson.RawValue) bson.RawValue {
	v := s.operands(e)
	if slices.ContainsFunc(v, value.IsNullish) {
		return value.Null
	}
	if !value.IsArray(v[0]) {
		return s.refusef(28724, "First argument to $slice must be an array, but is of type: %s", value.TypeName(v[0]))
	}
	all := value.Elements(v[0])
	length := int64(len(all))
	for i, number := range v[1:] {
		if !value.IsNumber(number) {
			return s.refusef(28725+2*int32(i), "operand %d of $slice must be a numeric value, but is of type: %s", i+2, value.TypeName(number))
		}
		if _, whole := value.Int32(number); !whole {
			return s.refusef(28726+2*int32(i), "operand %d of $slice can't be represented as a 32-bit integer: %s", i+2, number)
		}
	}
	n, _ := value.Int32(v[len(v)-1])
	if len(v) == 2 && n < 0 {
		return value.Array(all[max(0, length+n):])
	}
	var from int64
	if len(v) == 3 {
		if n <= 0 {
			return s.refusef(28729, "Third argument to $slice must be positive: %s", v[2])
		}
		from, _ = value.Int32(v[1])
		if from < 0 {
			from = max(0, length+from)
		}
		from = min(from, length)
	}
	return value.Array(all[from:min(length, from+n)])
}

func (s *Scope) in(e bson.RawValue) bson.RawValue {
	v := s.operands(e)
	if !value.IsArray(v[1]) {
		return s.refusef(40081, "$in requires an array as a second argument, found: %s", value.TypeName(v[1]))
	}
	return value.Bool(s.contains(value.Elements(v[1]), v[0]))
}

func (s *Scope) contains(all []bson.RawValue, v bson.RawValue) bool {
	return slices.ContainsFunc(all, func(other bson.RawValue) bool { return s.compare(v, other) == 0 })
}

// through goes through the array that $filter or $map has for its input, each element of
// which is a variable's value, and keeps what visit says. If the input is nullish, so is the result.
func (s *Scope) through(
	e bson.RawValue, code int32, name string, visit func(element bson.RawValue) (v bson.RawValue, keep bool),
) bson.RawValue {
	input := s.eval(value.Get(e, "input"))
	switch {
	case value.IsNullish(input):
		return value.Null
	case !value.IsArray(input):
		return s.refusef(code, "input to %s must be an array not %s", name, value.TypeName(input))
	}
	as := elementName(value.Get(e, "as"))
	var kept []bson.RawValue
	for _, element := range value.Elements(input) {
		outer := s.bind(as, element)
		if v, keep := visit(element); keep {
			kept = append(kept, v)
		}
		s.vars = outer
	}
	return value.Array(kept)
}

// elementName is the name of the variable that is an element.
func elementName(as bson.RawValue) string { return cmp.Or(value.Text(as), "this") }

func (s *Scope) filter(e bson.RawValue) bson.RawValue {
	test := value.Get(e, "cond")
	return s.through(e, 28651, "$filter", func(element bson.RawValue) (bson.RawValue, bool) {
		return element, value.Truth(s.eval(test))
	})
}

func (s *Scope) mapped(e bson.RawValue) bson.RawValue {
	in := value.Get(e, "in")
	return s.through(e, 16883, "$map", func(bson.RawValue) (bson.RawValue, bool) { return s.eval(in), true })
}

func (s *Scope) subset(e bson.RawValue) bson.RawValue {
	v := s.operands(e)
	for i, code := range []int32{17046, 17042} {
		if !value.IsArray(v[i]) {
			return s.refusef(code, "both operands of $setIsSubset must be arrays. One is of type: %s", value.TypeName(v[i]))
		}
	}
	whole := value.Elements(v[1])
	return value.Bool(!slices.ContainsFunc(value.Elements(v[0]), func(e bson.RawValue) bool { return !s.contains(whole, e) }))
}

// union is sorted.
func (s *Scope) union(e bson.RawValue) bson.RawValue {
	var all []bson.RawValue
	for v := range s.each(e) {
		switch {
		case value.IsNullish(v):
			return value.Null
		case !value.IsArray(v):
			return s.refusef(17043, "All operands of $setUnion must be arrays. One argument is of type: %s", value.TypeName(v))
		}
		for _, element := range value.Elements(v) {
			if !s.contains(all, element) {
				all = append(all, element)
			}
		}
	}
	slices.SortFunc(all, value.Compare)
	return value.Array(all)
}

// elements tests an array's elements: all of them, or any.
func (s *Scope) elements(e bson.RawValue, name string, code int32, all bool) bson.RawValue {
	v := s.operands(e)[0]
	if !value.IsArray(v) {
		return s.refusef(code, "%s's argument must be an array, but is %s", name, value.TypeName(v))
	}
	decides := slices.ContainsFunc(value.Elements(v), func(e bson.RawValue) bool { return value.Truth(e) != all })
	return value.Bool(decides != all)
}
