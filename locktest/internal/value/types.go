package value

import (
	"go.mongodb.org/mongo-driver/v2/bson"
)

// names are the names of the types in queries and expressions.
var names = map[bson.Type]string{
	bson.TypeDouble: "double", bson.TypeString: "string", bson.TypeEmbeddedDocument: "object", bson.TypeArray: "array",
	bson.TypeBinary: "binData", bson.TypeUndefined: "undefined", bson.TypeObjectID: "objectId", bson.TypeBoolean: "bool",
	bson.TypeDateTime: "date", bson.TypeNull: "null", bson.TypeRegex: "regex", bson.TypeDBPointer: "dbPointer",
	bson.TypeJavaScript: "javascript", bson.TypeSymbol: "symbol", bson.TypeCodeWithScope: "javascriptWithScope",
	bson.TypeInt32: "int", bson.TypeTimestamp: "timestamp", bson.TypeInt64: "long", bson.TypeDecimal128: "decimal",
	bson.TypeMinKey: "minKey", bson.TypeMaxKey: "maxKey", 0: "missing",
}

// TypeName is the name of a value's type, or "missing".
func TypeName(v bson.RawValue) string { return names[v.Type] }

// HasType reports whether a value is of a type that a query names, by its name or
// its number.
func HasType(v, of bson.RawValue) (bool, error) {
	if name, ok := of.StringValueOK(); ok {
		for _, known := range names {
			if known == name {
				return TypeName(v) == name, nil
			}
		}
		if name == "number" {
			return IsNumber(v), nil
		}
		return false, Refuse(BadValue, "Unknown type name alias: %s", name)
	}
	n, whole := Int32(of)
	_, known := names[bson.Type(n)]
	switch {
	case !IsNumber(of):
		return false, Refuse(TypeMismatch, "type must be represented as a number or a string")
	case !whole || n == 0 || n != int64(int8(n)) || !known:
		return false, Refuse(BadValue, "Invalid numerical type code: %s", of)
	}
	return int64(int8(v.Type)) == n, nil
}
