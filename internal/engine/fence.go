package engine

import (
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fenceLimit is 2^53: every whole number below it is exact in every numeric
// type, and the next one is too.
const fenceLimit = 1 << 53

// lastNumber reads lock.fence, the last number given out: any number that is
// not below 0 and is below fenceLimit. Where nothing was given out yet it is 0.
// Whatever else stands there is not a lock's (see ours in expr.go).
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
