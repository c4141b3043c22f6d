package expr

import (
	"slices"
	"strconv"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func isDate(v bson.RawValue) bool { return v.Type == bson.TypeDateTime }

func (s *Scope) add(e bson.RawValue) bson.RawValue {
	var all []bson.RawValue
	dated := false
	for v := range s.each(e) {
		switch {
		case value.IsNullish(v):
			return value.Null
		case isDate(v) && dated:
			return s.refusef(16612, "only one date allowed in an $add expression")
		case isDate(v):
			dated, v = true, value.Long(v.DateTime())
		case !value.IsNumber(v):
			return s.refusef(16554, "$add only supports numeric or date types, not %s", value.TypeName(v))
		}
		all = append(all, v)
	}
	sum := s.number(value.Sum(all))
	if dated {
		return s.date(sum)
	}
	return sum
}

func (s *Scope) date(milliseconds bson.RawValue) bson.RawValue {
	if s.err != nil {
		return value.Missing
	}
	n, ok := value.Milliseconds(milliseconds)
	if !ok {
		return s.refusef(15, "date overflow")
	}
	return value.Date(n)
}

func (s *Scope) subtract(e bson.RawValue) bson.RawValue {
	v := s.operands(e)
	a, b := v[0], v[1]
	switch {
	case value.IsNumber(a) && value.IsNumber(b):
		return s.number(value.Subtract(a, b))
	case value.IsNullish(a) || value.IsNullish(b):
		return value.Null
	case isDate(a) && isDate(b):
		return value.Long(a.DateTime() - b.DateTime())
	case !isDate(a) || !value.IsNumber(b):
		return s.refusef(value.TypeMismatch, "can't $subtract %s from %s", value.TypeName(b), value.TypeName(a))
	}
	by, ok := value.Milliseconds(b)
	if !ok {
		return s.refusef(15, "date overflow")
	}
	return s.date(s.number(value.Subtract(value.Long(a.DateTime()), value.Long(by))))
}

func (s *Scope) multiply(e bson.RawValue) bson.RawValue {
	product := value.Int(1)
	for v := range s.each(e) {
		switch {
		case value.IsNullish(v):
			return value.Null
		case !value.IsNumber(v):
			return s.refusef(value.TypeMismatch, "$multiply only supports numeric types, not %s", value.TypeName(v))
		default:
			product = s.number(value.Multiply(product, v))
		}
	}
	return product
}

func (s *Scope) number(v bson.RawValue, err error) bson.RawValue {
	if err != nil {
		return s.refuse(err)
	}
	return v
}

// several are the operands, or the elements of the one operand that is an array.
func (s *Scope) several(e bson.RawValue) []bson.RawValue {
	all := s.operands(e)
	if len(all) == 1 && value.IsArray(all[0]) {
		return value.Elements(all[0])
	}
	return all
}

// extreme is the greatest operand, or the least. Null does not count.
func (s *Scope) extreme(e bson.RawValue, sign int) bson.RawValue {
	best := value.Null
	for _, v := range s.several(e) {
		if !value.IsNullish(v) && (best.Type == bson.TypeNull || sign*value.Compare(v, best) > 0) {
			best = v
		}
	}
	return best
}

func (s *Scope) sum(e bson.RawValue) bson.RawValue {
	return s.number(value.Sum(slices.DeleteFunc(s.several(e), func(v bson.RawValue) bool { return !value.IsNumber(v) })))
}

func (s *Scope) toLong(e bson.RawValue) bson.RawValue {
	v := s.operands(e)[0]
	switch {
	case value.IsNullish(v):
		return value.Null
	case isDate(v):
		return value.Long(v.DateTime())
	case v.Type == bson.TypeBoolean:
		if v.Boolean() {
			return value.Long(1)
		}
		return value.Long(0)
	case v.Type == bson.TypeString:
		n, err := strconv.ParseInt(v.StringValue(), 10, 64)
		if err != nil {
			return s.refusef(241, "Failed to parse number %q in $convert", v.StringValue())
		}
		return value.Long(n)
	case !value.IsNumber(v):
		return s.refusef(241, "Unsupported conversion from %s to long", value.TypeName(v))
	}
	n, ok := value.Cut(v)
	if !ok {
		return s.refusef(241, "Conversion would overflow target type in $convert: %s", v)
	}
	return value.Long(n)
}
