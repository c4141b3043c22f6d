package bsonvalue

import (
	"cmp"
	"math"
	"math/big"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// compareNumbers compares what the numbers are, whatever their types. NaN comes
// before all others, and is equal to itself.
func compareNumbers(a, b bson.RawValue) int {
	if integer(a) && integer(b) {
		return cmp.Compare(a.AsInt64(), b.AsInt64())
	}
	x, y := numberOf(a), numberOf(b)
	if c := cmp.Compare(x.rank, y.rank); c != 0 || x.finite == nil {
		return c
	}
	return x.finite.Cmp(y.finite)
}

func integer(v bson.RawValue) bool { return v.Type == bson.TypeInt32 || v.Type == bson.TypeInt64 }

// number is a number's rank, and its exact value if it is finite.
type number struct {
	rank   int
	finite *big.Rat
}

const (
	notANumber = iota
	belowAll
	amongOthers
	aboveAll
)

func numberOf(v bson.RawValue) number {
	switch v.Type {
	case bson.TypeDouble:
		return numberOfDouble(v.Double())
	case bson.TypeDecimal128:
		return numberOfDecimal(v.Decimal128())
	default:
		return number{amongOthers, new(big.Rat).SetInt64(v.AsInt64())}
	}
}

func numberOfDouble(f float64) number {
	switch {
	case math.IsNaN(f):
		return number{rank: notANumber}
	case math.IsInf(f, -1):
		return number{rank: belowAll}
	case math.IsInf(f, 1):
		return number{rank: aboveAll}
	default:
		return number{amongOthers, new(big.Rat).SetFloat64(f)}
	}
}

func numberOfDecimal(d bson.Decimal128) number {
	digits, exponent, err := d.BigInt()
	switch {
	case d.IsNaN():
		return number{rank: notANumber}
	case d.IsInf() < 0:
		return number{rank: belowAll}
	case err != nil: // +Inf
		return number{rank: aboveAll}
	}
	power := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(max(exponent, -exponent))), nil)
	if exponent < 0 {
		return number{amongOthers, new(big.Rat).SetFrac(digits, power)}
	}
	return number{amongOthers, new(big.Rat).SetInt(digits.Mul(digits, power))}
}
