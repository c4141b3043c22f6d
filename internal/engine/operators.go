package engine

import "go.mongodb.org/mongo-driver/v2/bson"

// The operators of the decisions.

type (
	expr = any
	args = bson.A
)

func call(operator string, operands ...expr) bson.D {
	if len(operands) == 1 {
		return bson.D{{Key: operator, Value: operands[0]}}
	}
	return bson.D{{Key: operator, Value: args(operands)}}
}

func not(e expr) bson.D                  { return bson.D{{Key: "$not", Value: args{e}}} }
func cond(test, then, other expr) bson.D { return call("$cond", test, then, other) }
func nth(array expr, n int) bson.D       { return call("$arrayElemAt", array, n) }

// all and anyOf take at least one test. A single test needs no operator around
// it.
func all(tests ...expr) expr {
	if len(tests) == 1 {
		return tests[0]
	}
	return call("$and", tests...)
}

func anyOf(tests ...expr) expr {
	if len(tests) == 1 {
		return tests[0]
	}
	return call("$or", tests...)
}

func let(vars bson.D, in expr) bson.D {
	return bson.D{{Key: "$let", Value: bson.D{{Key: "vars", Value: vars}, {Key: "in", Value: in}}}}
}

func each(operator string, input expr, as, clause string, body expr) bson.D {
	return bson.D{{Key: operator, Value: bson.D{{Key: "input", Value: input}, {Key: "as", Value: as}, {Key: clause, Value: body}}}}
}

func filter(input expr, as string, test expr) bson.D { return each("$filter", input, as, "cond", test) }
func mapped(input expr, as string, in expr) bson.D   { return each("$map", input, as, "in", in) }

// none tests that no entry of an array passes a test.
func none(array string, test expr) bson.D { return call("$eq", filter(array, "e", test), args{}) }

func orElse(e, other expr) bson.D { return call("$ifNull", e, other) }

// arrayOf is the array e, or an empty one if e is no array.
func arrayOf(e expr) bson.D { return cond(call("$isArray", e), e, args{}) }
