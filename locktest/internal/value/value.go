package value

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Values that need no data.
var (
	Missing = bson.RawValue{}
	Null    = bson.RawValue{Type: bson.TypeNull}
	True    = bson.RawValue{Type: bson.TypeBoolean, Value: []byte{1}}
	False   = bson.RawValue{Type: bson.TypeBoolean, Value: []byte{0}}
)

// IsMissing reports whether there is no value.
func IsMissing(v bson.RawValue) bool { return v.Type == 0 }

// IsNullish reports whether a value is missing, null or undefined.
func IsNullish(v bson.RawValue) bool {
	return v.Type == 0 || v.Type == bson.TypeNull || v.Type == bson.TypeUndefined
}

// IsNumber reports whether a value is a number of any type.
func IsNumber(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64, bson.TypeDouble, bson.TypeDecimal128:
		return true
	default:
		return false
	}
}

// IsNaN reports whether a value is a number that is none.
func IsNaN(v bson.RawValue) bool {
	switch v.Type {
	case bson.TypeDouble:
		return math.IsNaN(v.Double())
	case bson.TypeDecimal128:
		return v.Decimal128().IsNaN()
	default:
		return false
	}
}

// IsDocument and IsArray tell a value's type.
func IsDocument(v bson.RawValue) bool { return v.Type == bson.TypeEmbeddedDocument }
func IsArray(v bson.RawValue) bool    { return v.Type == bson.TypeArray }

// Truth is what a value counts for in a condition.
func Truth(v bson.RawValue) bool {
	switch {
	case IsNullish(v):
		return false
	case v.Type == bson.TypeBoolean:
		return v.Boolean()
	case IsNumber(v):
		return Compare(v, Int(0)) != 0
	default:
		return true
	}
}

// Compare is the order of all values. A missing value comes before null.
func Compare(a, b bson.RawValue) int { return bsonvalue.Compare(present(a), present(b)) }

// Equal reports whether two values are one to the server.
func Equal(a, b bson.RawValue) bool { return Compare(a, b) == 0 }

func present(v bson.RawValue) bson.RawValue {
	if v.Type == 0 {
		return bson.RawValue{Type: bson.TypeUndefined}
	}
	return v
}

// Bool makes a boolean.
func Bool(b bool) bson.RawValue {
	if b {
		return True
	}
	return False
}

// Int makes a 32-bit number, Long one of 64 bits, and Double a floating one.
func Int(n int32) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt32, Value: binary.LittleEndian.AppendUint32(nil, uint32(n))}
}

func Long(n int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeInt64, Value: binary.LittleEndian.AppendUint64(nil, uint64(n))}
}

func Double(f float64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDouble, Value: binary.LittleEndian.AppendUint64(nil, math.Float64bits(f))}
}

// Date makes a date of milliseconds since 1970.
func Date(ms int64) bson.RawValue {
	return bson.RawValue{Type: bson.TypeDateTime, Value: binary.LittleEndian.AppendUint64(nil, uint64(ms))}
}

// Time makes a date, cut to milliseconds.
func Time(t time.Time) bson.RawValue { return Date(t.UnixMilli()) }

// String makes a string.
func String(s string) bson.RawValue {
	data := binary.LittleEndian.AppendUint32(make([]byte, 0, len(s)+5), uint32(len(s)+1))
	data = append(data, s...)
	return bson.RawValue{Type: bson.TypeString, Value: append(data, 0)}
}

// Of encodes a value of this package's callers, which can always be encoded.
func Of(v any) bson.RawValue {
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		panic(fmt.Sprintf("locktest: encode a value of its own: %v", err))
	}
	return bson.RawValue{Type: kind, Value: data}
}

// Array makes an array. A missing element becomes null.
func Array(elements []bson.RawValue) bson.RawValue {
	data := make([]byte, 4, 64)
	for i, v := range elements {
		if IsMissing(v) {
			v = Null
		}
		data = append(data, byte(v.Type))
		data = strconv.AppendInt(data, int64(i), 10)
		data = append(data, 0)
		data = append(data, v.Value...)
	}
	data = append(data, 0)
	binary.LittleEndian.PutUint32(data, uint32(len(data)))
	return bson.RawValue{Type: bson.TypeArray, Value: data}
}

// Elements are an array's elements, or nil for any other value.
func Elements(v bson.RawValue) []bson.RawValue {
	if !IsArray(v) {
		return nil
	}
	all := make([]bson.RawValue, 0, 4)
	for _, element := range each(v.Value) {
		all = append(all, element)
	}
	return all
}

// Text is a string's text, and "" for any other value.
func Text(v bson.RawValue) string {
	s, _ := v.StringValueOK()
	return s
}

// Cut is a number as a long without its fraction, and whether it fits.
func Cut(v bson.RawValue) (int64, bool) {
	exact := Exact(v)
	if exact == nil {
		return 0, false
	}
	whole := new(big.Int).Quo(exact.Num(), exact.Denom())
	return whole.Int64(), whole.IsInt64()
}

// Milliseconds are a number's, with which a date is computed: a double is cut off, and a
// decimal rounded, a half to the even one.
func Milliseconds(v bson.RawValue) (int64, bool) {
	exact := Exact(v)
	if v.Type != bson.TypeDecimal128 || exact == nil {
		return Cut(v)
	}
	twice, rest := new(big.Int).Lsh(exact.Denom(), 1), new(big.Int)
	n, _ := new(big.Int).DivMod(new(big.Int).Add(new(big.Int).Lsh(exact.Num(), 1), exact.Denom()), twice, rest)
	if rest.Sign() == 0 && n.Bit(0) == 1 {
		n.Sub(n, big.NewInt(1))
	}
	return n.Int64(), n.IsInt64()
}

// Int32 is a number of any type as a whole one of 32 bits, and whether it is one.
func Int32(v bson.RawValue) (int64, bool) {
	n, fits := Cut(v)
	return n, fits && n == int64(int32(n)) && Equal(v, Long(n))
}

// Whole is a number as a whole one, and whether it is one.
func Whole(v bson.RawValue) (int64, bool) {
	switch v.Type {
	case bson.TypeInt32, bson.TypeInt64:
		return v.AsInt64(), true
	case bson.TypeDouble:
		f := v.Double()
		return int64(f), f == math.Trunc(f) && math.Abs(f) < 1<<62
	default:
		return 0, false
	}
}
