package expr

import (
	"math"
	"math/big"
	"strconv"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func isDate(v bson.RawValue) bool { return v.Type == bson.TypeDateTime }

// milliseconds are a date's, or those that a number stands for, as a long.
func (s *Scope) milliseconds(v bson.RawValue) bson.RawValue {
	switch v.Type {
	case bson.TypeDateTime:
		return value.Long(v.DateTime())
	case bson.TypeInt32, bson.TypeInt64:
		return value.Long(v.AsInt64())
	}
	exact := value.Exact(v)
	if exact == nil {
		return s.refusef(value.BadValue, "a date can't be changed by %s", v)
	}
	rounded, _ := exact.Float64()
	if rounded = math.Round(rounded); math.Abs(rounded) >= 1<<63 {
		return s.refusef(15, "date overflow")
	}
	return value.Long(int64(rounded))
}

// shifted is the date that comes a number of milliseconds after another one.
func (s *Scope) shifted(date, by bson.RawValue) bson.RawValue {
	if s.err != nil {
		return value.Missing
	}
	sum := s.number(value.Add(date, by))
	if sum.Type != bson.TypeInt64 {
		return s.refusef(15, "date overflow")
	}
	return value.Date(sum.Int64())
}

func (s *Scope) add(e bson.RawValue) bson.RawValue {
	sum := value.Int(0)
	for v := range s.each(e) {
		switch {
		case value.IsNullish(v):
			return value.Null
		case isDate(v) && isDate(sum):
			return s.refusef(16612, "only one date allowed in an $add expression")
		case !value.IsNumber(v) && !isDate(v):
			return s.refusef(16554, "$add only supports numeric or date types, not %s", value.TypeName(v))
		case isDate(v) || isDate(sum):
			sum = s.shifted(s.milliseconds(sum), s.milliseconds(v))
		default:
			sum = s.number(value.Add(sum, v))
		}
	}
	return sum
}

func (s *Scope) subtract(e bson.RawValue) bson.RawValue {
	v := s.operands(e)
	a, b := v[0], v[1]
	switch {
	case value.IsNullish(a) || value.IsNullish(b):
		return value.Null
	case isDate(a) && isDate(b):
		return value.Long(a.DateTime() - b.DateTime())
	case isDate(a) && value.IsNumber(b):
		if _, whole := value.Whole(b); !whole {
			return s.refuse(value.Unsupported("$subtract of a number that is not whole from a date: %s", b))
		}
		by := s.milliseconds(b)
		if s.err != nil {
			return value.Missing
		}
		return s.shifted(s.milliseconds(a), s.number(value.Negate(by)))
	case !value.IsNumber(a) || !value.IsNumber(b):
		return s.refusef(16556, "can't $subtract %s from %s", value.TypeName(b), value.TypeName(a))
	}
	negative := s.number(value.Negate(b))
	if s.err != nil {
		return value.Missing
	}
	return s.number(value.Add(a, negative))
}

func (s *Scope) multiply(e bson.RawValue) bson.RawValue {
	product := value.Int(1)
	for v := range s.each(e) {
		switch {
		case value.IsNullish(v):
			return value.Null
		case !value.IsNumber(v):
			return s.refusef(16555, "$multiply only supports numeric types, not %s", value.TypeName(v))
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
	sum := value.Int(0)
	for _, v := range s.several(e) {
		if value.IsNumber(v) {
			sum = s.number(value.Add(sum, v))
		}
	}
	return sum
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
	case v.Type == bson.TypeDecimal128:
		exact := value.Exact(v)
		if exact == nil {
			return s.refusef(241, "Attempt to convert %s, which is no long, in $convert", v)
		}
		whole := new(big.Int).Quo(exact.Num(), exact.Denom())
		if !whole.IsInt64() {
			return s.refusef(241, "Conversion would overflow target type in $convert: %s", v)
		}
		return value.Long(whole.Int64())
	case !value.IsNumber(v):
		return s.refusef(241, "Unsupported conversion from %s to long", value.TypeName(v))
	}
	f := value.Float(v)
	if v.Type == bson.TypeDouble && (math.IsNaN(f) || f < math.MinInt64 || f >= math.MaxInt64) {
		return s.refusef(241, "Attempt to convert %v, which is no long, in $convert", f)
	}
	return value.Long(v.AsInt64())
}
