package engine

import (
	"fmt"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fenceLimit is 2^53: all whole numbers up to it are exact in every numeric
// type.
const fenceLimit = 1 << 53

// exhausted is the failure of a request that the decisions refuse because no fence is
// left for it (see exhausted in expr.go), or nil.
func (e *Engine) exhausted(img *Image) error {
	now := img.Now.UnixMilli()
	switch {
	case img.Lock.Fence+1 >= fenceLimit:
		return &Failure{Nothing: true, Cause: CauseForeign, err: fmt.Errorf("field %q of document %s: %w: its fence is %d, the last one", e.field, img.ID, errForeign, img.Lock.Fence)}
	case !img.Now.IsZero() && (now <= 0 || now >= fenceLimit):
		return &Failure{Nothing: true, Cause: CauseUnsupported, err: fmt.Errorf("its clock is at %v, and fencing tokens are the milliseconds since 1970; set the clock", img.Now)}
	default:
		return nil
	}
}

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
