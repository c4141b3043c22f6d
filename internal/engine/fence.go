package engine

import (
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fenceLimit is 2^53: all whole numbers up to it are exact in every numeric
// type.
const fenceLimit = 1 << 53

// lastNumber reads lock.fence. It accepts any number from 0 up to, and without,
// fenceLimit; a missing or null field is 0. Any other value makes the field
// foreign (see ours in expr.go).
func lastNumber(v bson.RawValue) (n int64, ok bool) {
	switch v.Type {
	case 0, bson.TypeNull, bson.TypeUndefined:
		return 0, true
	case bson.TypeInt32, bson.TypeInt64:
		n = v.AsInt64()
		return n, n >= 0 && n < fenceLimit
	case bson.TypeDouble:
		f := v.Double()
		if f >= 0 && f < fenceLimit { // NaN is neither
			return int64(f), true
		}
	case bson.TypeDecimal128:
		r, isNumber := new(big.Rat).SetString(v.Decimal128().String())
		if isNumber && r.Sign() >= 0 && r.Cmp(big.NewRat(fenceLimit, 1)) < 0 {
			return new(big.Int).Quo(r.Num(), r.Denom()).Int64(), true
		}
	}
	return 0, false
}
