package value

import (
	"math"
	"math/big"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Digits of a decimal, the bits that a number of as many digits needs while it is
// rounded, and the digits that count of a double, but in a sum.
const (
	digits       = 34
	precision    = 256
	doubleDigits = 15
)

// decimals computes exactly. The result has the exponent that the operation prefers,
// if it has room for the digits, and is rounded otherwise.
func (o operation) decimals(a, b bson.RawValue) (bson.RawValue, error) {
	x, y := Exact(a), Exact(b)
	if x == nil || y == nil {
		return parsed(strconv.FormatFloat(o.floats(direction(a, x), direction(b, y)), 'g', -1, 64))
	}
	result, places := o.exact(new(big.Rat), x, y), -o.places(exponent(a), exponent(b))
	switch {
	case result.Sign() == 0:
		return parsed("0E" + strconv.Itoa(-places))
	case places >= 0 && places <= digits:
		scaled := new(big.Rat).Mul(result, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)))
		if text := scaled.Num().String(); scaled.IsInt() && len(strings.TrimPrefix(text, "-")) <= digits {
			return parsed(text + "E" + strconv.Itoa(-places))
		}
	}
	return parsed(scientific(result))
}

// scientific is a number with all digits of a decimal.
func scientific(r *big.Rat) string {
	return new(big.Float).SetPrec(precision).SetRat(r).Text('E', digits-1)
}

// direction is what counts of a number beside one that is infinite or none.
func direction(v bson.RawValue, exact *big.Rat) float64 {
	switch {
	case exact != nil:
		return float64(exact.Sign())
	case IsNaN(v):
		return math.NaN()
	default:
		return math.Inf(v.Decimal128().IsInf())
	}
}

// rounded is a number as a decimal without zeros at its end.
func rounded(r *big.Rat) (bson.RawValue, error) {
	mantissa, exponent, _ := strings.Cut(scientific(r), "E")
	return parsed(strings.TrimSuffix(strings.TrimRight(mantissa, "0"), ".") + "E" + exponent)
}

// asDecimal is a double as a decimal of some digits. Infinity and NaN have their names.
func asDecimal(v bson.RawValue, digits int) bson.RawValue {
	if v.Type != bson.TypeDouble {
		return v
	}
	d, _ := bson.ParseDecimal128(strconv.FormatFloat(v.Double(), 'e', digits-1, 64))
	return Of(d)
}

// exponent is a decimal's; another number is whole.
func exponent(v bson.RawValue) int {
	if v.Type == bson.TypeDecimal128 {
		if _, exponent, err := v.Decimal128().BigInt(); err == nil {
			return exponent
		}
	}
	return 0
}

// parsed is a decimal. What is too large becomes infinite, and what is too small zero.
func parsed(text string) (bson.RawValue, error) {
	d, err := bson.ParseDecimal128(text)
	if err == nil {
		return Of(d), nil
	}
	sign := strings.TrimRight(text[:1], "0123456789")
	_, exponent, _ := strings.Cut(text, "E")
	if strings.HasPrefix(exponent, "-") {
		text = sign + "0E-6176"
	} else {
		text = sign + "Infinity"
	}
	if d, err = bson.ParseDecimal128(text); err != nil {
		return Missing, Unsupported("the decimal %s", text)
	}
	return Of(d), nil
}

// Exact is a number without rounding, or nil if the value is no finite number.
func Exact(v bson.RawValue) *big.Rat {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return new(big.Rat).SetInt64(v.AsInt64())
	case bson.TypeDouble:
		return new(big.Rat).SetFloat64(v.Double())
	case bson.TypeDecimal128:
		r, ok := new(big.Rat).SetString(v.Decimal128().String())
		if ok {
			return r
		}
	}
	return nil
}
