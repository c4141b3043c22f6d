package value

import (
	"math"
	"math/big"
	"math/bits"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// operation is one of arithmetic, for all types of numbers.
type operation struct {
	name   string
	floats func(x, y float64) float64
	wholes func(x, y int64) (n int64, fits bool)
	exact  func(z, x, y *big.Rat) *big.Rat
	places func(x, y int) int // the exponent that a decimal result prefers
}

var (
	addition = operation{"add", func(x, y float64) float64 { return x + y }, addWholes, (*big.Rat).Add, func(x, y int) int { return min(x, y) }}
	negative = operation{"subtract", func(x, y float64) float64 { return x - y }, func(x, y int64) (int64, bool) {
		difference := x - y
		return difference, (difference < x) == (y > 0)
	}, (*big.Rat).Sub, addition.places}
	product = operation{"multiply", func(x, y float64) float64 { return x * y }, func(x, y int64) (int64, bool) {
		high, low := bits.Mul64(uint64(abs(x)), uint64(abs(y)))
		return x * y, high == 0 && low <= math.MaxInt64
	}, (*big.Rat).Mul, func(x, y int) int { return x + y }}
)

func addWholes(x, y int64) (int64, bool) {
	sum := x + y
	return sum, (sum > x) == (y > 0)
}

// Add adds two numbers. The result has the wider type of both; one that does not fit
// into 32 bits becomes a long. Subtract and Multiply do likewise.
func Add(a, b bson.RawValue) (bson.RawValue, error)      { return combine(addition, a, b) }
func Subtract(a, b bson.RawValue) (bson.RawValue, error) { return combine(negative, a, b) }
func Multiply(a, b bson.RawValue) (bson.RawValue, error) { return combine(product, a, b) }

func abs(n int64) int64 {
	if n < 0 {
		return -n
	}
	return n
}

func combine(o operation, a, b bson.RawValue) (bson.RawValue, error) {
	if !IsNumber(a) || !IsNumber(b) {
		return Missing, Refuse(TypeMismatch, "Cannot %s a value of type %s and one of type %s", o.name, TypeName(a), TypeName(b))
	}
	if a.Type == bson.TypeDecimal128 || b.Type == bson.TypeDecimal128 {
		return o.decimals(asDecimal(a, doubleDigits), asDecimal(b, doubleDigits))
	}
	if a.Type == bson.TypeDouble || b.Type == bson.TypeDouble {
		return Double(o.floats(Float(a), Float(b))), nil
	}
	n, fits := o.wholes(a.AsInt64(), b.AsInt64())
	switch {
	case !fits:
		return Double(o.floats(Float(a), Float(b))), nil
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

// Sum adds numbers, of which the others than decimals are added without rounding, and
// then to the decimals, with all digits of a double. A long stays one.
func Sum(numbers []bson.RawValue) (bson.RawValue, error) {
	total, small, fits := int64(0), true, true
	for _, v := range numbers {
		if v.Type == bson.TypeDouble || v.Type == bson.TypeDecimal128 {
			return sumOfAll(numbers)
		}
		small = small && v.Type == bson.TypeInt32
		sum, more := addWholes(total, v.AsInt64())
		total, fits = sum, fits && more
	}
	switch {
	case !fits:
		return sumOfAll(numbers)
	case small && total == int64(int32(total)):
		return Int(int32(total)), nil
	default:
		return Long(total), nil
	}
}

func sumOfAll(numbers []bson.RawValue) (bson.RawValue, error) {
	plain, special, decimals := new(big.Rat), 0.0, Missing
	for _, v := range numbers {
		exact := Exact(v)
		switch {
		case v.Type == bson.TypeDecimal128 && IsMissing(decimals):
			decimals = v
		case v.Type == bson.TypeDecimal128:
			var err error
			if decimals, err = addition.decimals(decimals, v); err != nil {
				return Missing, err
			}
		case exact == nil:
			special += v.Double()
		default:
			plain.Add(plain, exact)
		}
	}
	total, _ := plain.Float64()
	if special != 0 {
		total = special
	}
	switch {
	case IsMissing(decimals):
		return Double(total), nil
	case special != 0:
		return addition.decimals(decimals, asDecimal(Double(total), digits))
	}
	rest, err := rounded(plain)
	if err != nil {
		return Missing, err
	}
	return addition.decimals(decimals, rest)
}
