package value

import (
	"math/big"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Digits of a decimal, and the bits that a number of as many digits needs while it
// is rounded.
const (
	digits    = 34
	precision = 256
)

func addDecimals(a, b bson.RawValue) (bson.RawValue, error) {
	return withDecimals(a, b, (*big.Rat).Add)
}

func multiplyDecimals(a, b bson.RawValue) (bson.RawValue, error) {
	return withDecimals(a, b, (*big.Rat).Mul)
}

// withDecimals computes exactly, and rounds the result to a decimal.
func withDecimals(a, b bson.RawValue, compute func(z, x, y *big.Rat) *big.Rat) (bson.RawValue, error) {
	x, y := Exact(a), Exact(b)
	if x == nil || y == nil {
		return Missing, Unsupported("arithmetic with decimals that are no numbers")
	}
	text := new(big.Float).SetPrec(precision).SetRat(compute(new(big.Rat), x, y)).Text('e', digits-1)
	mantissa, exponent, _ := strings.Cut(text, "e")
	if strings.Contains(mantissa, ".") {
		mantissa = strings.TrimSuffix(strings.TrimRight(mantissa, "0"), ".")
	}
	d, err := bson.ParseDecimal128(mantissa + "E" + exponent)
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
