package recorded_test

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/mongotest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"pgregory.net/rapid"
)

func valueOf(t testing.TB, v any) bson.RawValue {
	t.Helper()
	kind, data, err := bson.MarshalValue(v)
	if err != nil {
		t.Fatal(err)
	}
	return bson.RawValue{Type: kind, Value: data}
}

func dec(text string) bson.Decimal128 {
	d, err := bson.ParseDecimal128(text)
	if err != nil {
		panic(err)
	}
	return d
}

// ascending are values in the server's order. Those of one row are one value to
// it.
var ascending = [][]any{
	{bson.MinKey{}},
	{bson.Null{}},
	{math.NaN(), dec("NaN")},
	{math.Inf(-1), dec("-Infinity")},
	{dec("-1E+400"), dec("-10E+399")},
	{-math.MaxFloat64},
	{int64(math.MinInt64), -0x1p63, dec("-9223372036854775808")},
	{int32(-1), int64(-1), -1.0, dec("-1"), dec("-1.00")},
	{dec("-1E-400")},
	{int32(0), int64(0), 0.0, math.Copysign(0, -1), dec("0"), dec("-0"), dec("0E+3")},
	{math.SmallestNonzeroFloat64},
	{dec("0.1")},
	{0.1}, // which is a little more than a tenth
	{0.5, dec("0.5"), dec("0.50")},
	{int32(1), int64(1), 1.0, dec("1"), dec("1.000")},
	{int32(10), 10.0, dec("1E+1")},
	{int64(1<<53 - 1), float64(1<<53 - 1)},
	{int64(1 << 53), float64(1 << 53)},
	{int64(1<<53 + 1), dec("9007199254740993")}, // which no double is
	{int64(1<<53 + 2), float64(1<<53 + 2)},
	{int64(math.MaxInt64), dec("9223372036854775807")},
	{0x1p63, dec("9223372036854775808")},
	{math.MaxFloat64},
	{dec("1E+400")},
	{math.Inf(1), dec("Infinity")},
	{""},
	{"A"},
	{"B"},
	{"a"},
	{"a\x00"},
	{"aa"},
	{"b"},
	{"é"},
	{bson.D{}},
	{bson.D{{Key: "b", Value: bson.Null{}}}},
	{bson.D{{Key: "a", Value: 1}}, bson.D{{Key: "a", Value: 1.0}}},
	{bson.D{{Key: "a", Value: 1}, {Key: "b", Value: 1}}},
	{bson.D{{Key: "a", Value: 2}}},
	{bson.D{{Key: "b", Value: 1}}},
	{bson.D{{Key: "a", Value: "x"}}},
	{bson.D{{Key: "a", Value: bson.A{}}}},
	{bson.D{{Key: "a", Value: bson.A{1}}}, bson.D{{Key: "a", Value: bson.A{int64(1)}}}},
	{bson.D{{Key: "a", Value: bson.A{1, 0}}}},
	{bson.D{{Key: "a", Value: bson.A{2}}}},
	{bson.Binary{Subtype: 0, Data: []byte{}}},
	{bson.Binary{Subtype: 0, Data: []byte{9}}},
	{bson.Binary{Subtype: 4, Data: []byte{1}}},
	{bson.Binary{Subtype: 0, Data: []byte{1, 2}}},
	{bson.ObjectID{}},
	{bson.ObjectID{1}},
	{false},
	{true},
	{bson.DateTime(-1)},
	{bson.DateTime(0)},
	{bson.DateTime(1795255512860)},
	{bson.Timestamp{T: 1, I: 0x80000000}},
	{bson.Timestamp{T: 0x80000000, I: 1}},
	{bson.MaxKey{}},
}

func TestCompare(t *testing.T) {
	t.Parallel()
	for i, row := range ascending {
		for j, other := range ascending {
			for _, a := range row {
				for _, b := range other {
					if got, want := bsonvalue.Compare(valueOf(t, a), valueOf(t, b)), cmp.Compare(i, j); got != want {
						t.Errorf("Compare(%T %v, %T %v) is %d, want %d", a, a, b, b, got, want)
					}
				}
			}
		}
	}
}

// Values that no _id can be, and that a document in an _id may have.
func TestCompareOfOtherTypes(t *testing.T) {
	t.Parallel()
	for i, pair := range [][2]any{
		{bson.Undefined{}, bson.Null{}},
		{bson.Symbol("a"), "b"},
		{bson.Timestamp{T: 9}, bson.Regex{}},
		{bson.Regex{Pattern: "a", Options: "i"}, bson.Regex{Pattern: "b"}},
		{bson.Regex{Pattern: "a"}, bson.Regex{Pattern: "a", Options: "i"}},
		{bson.Regex{}, bson.DBPointer{}},
		{bson.JavaScript("a"), bson.JavaScript("b")},
		{bson.JavaScript("b"), bson.CodeWithScope{Code: "a", Scope: bson.D{}}},
		{bson.CodeWithScope{Code: "a", Scope: bson.D{{Key: "x", Value: 1}}}, bson.CodeWithScope{Code: "a", Scope: bson.D{{Key: "x", Value: 2}}}},
	} {
		less, more := valueOf(t, pair[0]), valueOf(t, pair[1])
		if bsonvalue.Compare(less, more) != -1 || bsonvalue.Compare(more, less) != 1 || bsonvalue.Compare(less, less) != 0 {
			t.Errorf("pair %d: %v and %v", i, less, more)
		}
	}
	if bsonvalue.Compare(valueOf(t, bson.Symbol("a")), valueOf(t, "a")) != 0 {
		t.Error("a symbol differs from the string")
	}
	malformed := bson.RawValue{Type: bson.TypeEmbeddedDocument, Value: []byte{9, 0}}
	if c := bsonvalue.Compare(malformed, valueOf(t, bson.D{})); c == 0 || c != -bsonvalue.Compare(valueOf(t, bson.D{}), malformed) {
		t.Errorf("a malformed document compares as %d", c)
	}
}

// drawn is any value that an _id can be, of few different parts.
func drawn(depth int) *rapid.Generator[any] {
	return rapid.Custom(func(t *rapid.T) any {
		if depth > 0 && rapid.IntRange(0, 3).Draw(t, "nested") == 0 {
			d := bson.D{}
			for range rapid.IntRange(0, 2).Draw(t, "fields") {
				v := drawn(depth-1).Draw(t, "value")
				if rapid.Bool().Draw(t, "array") {
					v = bson.A{v}
				}
				d = append(d, bson.E{Key: rapid.SampledFrom([]string{"a", "b", "ab"}).Draw(t, "key"), Value: v})
			}
			return d
		}
		if rapid.Bool().Draw(t, "known") {
			return rapid.SampledFrom(slices.Concat(ascending...)).Draw(t, "of the table")
		}
		n := rapid.Int64().Draw(t, "number")
		return rapid.SampledFrom([]any{n, int32(n), float64(n), dec(fmt.Sprint(n)), dec(fmt.Sprintf("%dE-%d", n, n&63)),
			math.Float64frombits(uint64(n)), fmt.Sprint(n), bson.DateTime(n), time.UnixMilli(n).UTC().String()}).Draw(t, "form")
	})
}

// The order is total: it has the same answer from both sides, and what comes
// before a value comes before all that come after it.
func TestTheOrderIsTotal(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		var v [3]bson.RawValue
		for i := range v {
			v[i] = valueOf(t, drawn(2).Draw(rt, "value"))
		}
		if bsonvalue.Compare(v[0], v[0]) != 0 {
			rt.Errorf("%v differs from itself", v[0])
		}
		if bsonvalue.Compare(v[0], v[1]) != -bsonvalue.Compare(v[1], v[0]) {
			rt.Errorf("%v and %v compare in two ways", v[0], v[1])
		}
		slices.SortFunc(v[:], bsonvalue.Compare)
		first, second, across := bsonvalue.Compare(v[0], v[1]), bsonvalue.Compare(v[1], v[2]), bsonvalue.Compare(v[0], v[2])
		if first > 0 || second > 0 || across > 0 || (across == 0) != (first == 0 && second == 0) {
			rt.Errorf("%v, %v, %v: %d, %d, %d", v[0], v[1], v[2], first, second, across)
		}
	})
}

// Equal _ids are duplicates to the server, and it sorts the others in the same
// order.
func TestTheOrderIsTheServers(t *testing.T) {
	t.Parallel()
	coll := mongotest.Database(t).Collection("ids")
	values := slices.Concat(ascending...)
	for i := range 200 {
		values = append(values, drawn(2).Example(i))
	}
	var stored []bson.RawValue
	for _, v := range values {
		id := valueOf(t, v)
		equal := slices.ContainsFunc(stored, func(other bson.RawValue) bool { return bsonvalue.Compare(id, other) == 0 })
		_, err := coll.InsertOne(t.Context(), bson.D{{Key: "_id", Value: id}})
		if duplicate := mongo.IsDuplicateKeyError(err); err != nil && !duplicate {
			t.Logf("the server refuses the _id %v: %v", id, err)
		} else if duplicate != equal {
			t.Errorf("%v (%v): the server says %v; equal to another one: %v", id, id.Type, err, equal)
		}
		if err == nil {
			stored = append(stored, id)
		}
	}
	cursor, err := coll.Find(t.Context(), bson.D{}, options.Find().SetSort(bson.D{{Key: "_id", Value: 1}}))
	if err != nil {
		t.Fatal(err)
	}
	var sorted []bson.Raw
	if err := cursor.All(t.Context(), &sorted); err != nil {
		t.Fatal(err)
	}
	if len(sorted) < 100 {
		t.Errorf("only %d documents", len(sorted))
	}
	for i := 1; i < len(sorted); i++ {
		if a, b := sorted[i-1].Lookup("_id"), sorted[i].Lookup("_id"); bsonvalue.Compare(a, b) >= 0 {
			t.Errorf("the server sorts %v (%v) before %v (%v)", a, a.Type, b, b.Type)
		}
	}
}

func TestMain(m *testing.M) { mongotest.Main(m) }
