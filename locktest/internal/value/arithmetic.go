package value

import (
	"math"
	"math/bits"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Add adds two numbers. The result has the wider type of both; a sum that does not
// fit into 32 bits becomes a long.
func Add(a, b bson.RawValue) (bson.RawValue, error) {
	return combine("add", a, b, addDecimals, func(x, y float64) float64 { return x + y }, func(x, y int64) (int64, bool) {
		sum := x + y
		return sum, (sum > x) == (y > 0)
	})
}

// Multiply multiplies two numbers, as Add adds them.
func Multiply(a, b bson.RawValue) (bson.RawValue, error) {
	return combine("multiply", a, b, multiplyDecimals, func(x, y float64) float64 { return x * y }, func(x, y int64) (int64, bool) {
		high, low := bits.Mul64(uint64(abs(x)), uint64(abs(y)))
		return x * y, high == 0 && low <= math.MaxInt64
	})
}

// Negate is the number with the other sign.
func Negate(v bson.RawValue) (bson.RawValue, error) { return Multiply(v, Int(-1)) }

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

func combine(what string, a, b bson.RawValue, decimals func(a, b bson.RawValue) (bson.RawValue, error),
	floats func(x, y float64) float64, wholes func(x, y int64) (int64, bool)) (bson.RawValue, error) {
	if !IsNumber(a) || !IsNumber(b) {
		return Missing, Refuse(TypeMismatch, "Cannot %s a value of type %s and one of type %s", what, TypeName(a), TypeName(b))
	}
	if a.Type == bson.TypeDecimal128 || b.Type == bson.TypeDecimal128 {
		return decimals(a, b)
	}
	if a.Type == bson.TypeDouble || b.Type == bson.TypeDouble {
		return Double(floats(Float(a), Float(b))), nil
	}
	n, fits := wholes(a.AsInt64(), b.AsInt64())
	switch {
	case !fits:
		return Double(floats(Float(a), Float(b))), nil
	case a.Type == bson.TypeInt32 && b.Type == bson.TypeInt32 && n == int64(int32(n)):
		return Int(int32(n)), nil
	default:
		return Long(n), nil
	}
}

// Float is a number, other than a decimal, as a double.
func Float(v bson.RawValue) float64 {
	if v.Type == bson.TypeDouble {
		return v.Double()
	}
	return float64(v.AsInt64())
}
