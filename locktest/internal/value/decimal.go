package value

import (
	"math/big"
	"strconv"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Digits of a decimal, the bits that a number of as many digits needs while it is
// rounded, and the digits that count of a double.
const (
	digits       = 34
	precision    = 256
	doubleDigits = 15
)

func addDecimals(a, b bson.RawValue) (bson.RawValue, error) {
	return withDecimals(a, b, (*big.Rat).Add, func(x, y int) int { return min(x, y) })
}

func multiplyDecimals(a, b bson.RawValue) (bson.RawValue, error) {
	return withDecimals(a, b, (*big.Rat).Mul, func(x, y int) int { return x + y })
}

// withDecimals computes exactly, after doubles have become decimals. The result has
// the exponent that the operation prefers, if it has room for the digits, and is
// rounded otherwise.
func withDecimals(a, b bson.RawValue, compute func(z, x, y *big.Rat) *big.Rat, prefer func(x, y int) int) (bson.RawValue, error) {
	a, b = asDecimal(a), asDecimal(b)
	x, y := Exact(a), Exact(b)
	if x == nil || y == nil {
		return Missing, Unsupported("arithmetic with decimals that are no numbers")
	}
	result := compute(new(big.Rat), x, y)
	if places := -prefer(exponent(a), exponent(b)); places >= 0 && places <= digits {
		scaled := new(big.Rat).Mul(result, new(big.Rat).SetInt(new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(places)), nil)))
		if text := scaled.Num().String(); scaled.IsInt() && len(strings.TrimPrefix(text, "-")) <= digits {
			return parsed(text + "E" + strconv.Itoa(-places))
		}
	}
	text := new(big.Float).SetPrec(precision).SetRat(result).Text('e', digits-1)
	mantissa, exponent, _ := strings.Cut(text, "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimSuffix(strings.TrimRight(mantissa, "0"), ".")
	}
	return parsed(mantissa + "E" + exponent)
}

// asDecimal is a double as a decimal of 15 digits, as in MongoDB.
func asDecimal(v bson.RawValue) bson.RawValue {
	if v.Type != bson.TypeDouble {
		return v
	}
	d, err := bson.ParseDecimal128(strconv.FormatFloat(v.Double(), 'e', doubleDigits-1, 64))
	if err != nil { // infinite, or not a number
		return v
	}
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

func parsed(text string) (bson.RawValue, error) {
	d, err := bson.ParseDecimal128(text)
	if err != nil {
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
