package recorded

import (
	"bytes"
	"strings"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// Operator is what an operator of an expression, a filter or an update makes of its
// operands: a result, or the code of a refusal. That of a filter are the _ids of those
// of all values that it matches. An operand or a result may be missing, too.
type Operator struct {
	Op   string
	Of   []bson.RawValue
	Is   bson.RawValue `bson:",omitempty"`
	Code int32         `bson:",omitempty"`
	Text string        `bson:",omitempty"`
}

// missing stands for a value that isn't there.
const missing = "(missing)"

// expressions are those of the operators that don't take a list of operands.
var expressions = map[string]any{
	"path":    "$a.x",
	"$cond":   d("$cond", bson.A{"$a", int32(1), int32(2)}),
	"$filter": d("$filter", bson.D{e("input", "$a"), e("cond", "$$this")}),
	"$map":    d("$map", bson.D{e("input", "$a"), e("in", d("$type", "$$this"))}),
	"$switch": d("$switch", bson.D{e("branches", bson.A{bson.D{e("case", "$a"), e("then", int32(1))}}), e("default", int32(2))}),
}

// Now is the operator with what a server makes of a command that uses it. values are all that there are.
func (o Operator) Now(values []bson.RawValue, run func(Recording) (Outcome, error)) (Operator, error) {
	r, err := o.recording(values)
	if err != nil {
		return o, err
	}
	outcome, err := run(r)
	if err != nil {
		return o, err
	}
	return o.with(outcome)
}

// recording is a command that uses the operator.
func (o Operator) recording(values []bson.RawValue) (r Recording, err error) {
	r.Kind = o.Op
	var command bson.D
	documents := []bson.D{with(d("_id", int32(1)), "a", o.Of[0])}
	family, name, _ := strings.Cut(o.Op, " ")
	switch expression, known := expressions[family]; {
	case family == "find":
		documents = nil
		for i, v := range values {
			documents = append(documents, with(d("_id", int32(i)), "a", v))
		}
		command = finding(name, o.Of[0])
	case family == "update":
		command = updating(bson.D{e("q", bson.D{}), e("u", d(name, d("a", o.Of[1])))})
	case family == "literal":
		var v any
		if len(documents[0]) > 1 {
			v = o.Of[0]
		}
		command = project(d("$literal", v))
	case known:
		command = project(expression)
	case name == "bare":
		command = project(d(family, "$a"))
	case len(o.Of) == 1:
		command = project(d(family, bson.A{"$a"}))
	default:
		documents[0] = with(documents[0], "b", o.Of[1])
		command = project(d(family, bson.A{"$a", "$b"}))
	}
	for _, document := range documents {
		raw, err := bson.Marshal(document)
		if err != nil {
			return r, err
		}
		r.Documents = append(r.Documents, raw)
	}
	r.Command, err = bson.Marshal(command)
	return r, err
}

// Values are all values that operators were recorded with.
func Values(all []Operator) (values []bson.RawValue) {
	for _, o := range all {
		if o.Op == "$type" {
			values = append(values, o.Of[0])
		}
	}
	return values
}

// with adds a field to a document, unless its value is missing.
func with(document bson.D, name string, v bson.RawValue) bson.D {
	if text, ok := v.StringValueOK(); ok && text == missing {
		return document
	}
	return append(document, bson.E{Key: name, Value: v})
}

func finding(name string, v bson.RawValue) bson.D {
	var condition any
	switch name {
	case "plain":
		condition = v
	case "$in", "$nin", "$all":
		condition = d(name, bson.A{v})
	case "$elemMatch":
		condition = d(name, d("$eq", v))
	default:
		condition = d(name, v)
	}
	id := d("_id", int32(1))
	return bson.D{e("find", "c"), e("filter", d("a", condition)), e("projection", id), e("sort", id)}
}

func d(key string, v any) bson.D { return bson.D{e(key, v)} }
func e(key string, v any) bson.E { return bson.E{Key: key, Value: v} }

func updating(statement bson.D) bson.D {
	return bson.D{e("update", "c"), e("updates", bson.A{statement})}
}

func project(expression any) bson.D { return aggregating(d("$project", d("r", expression))) }

func aggregating(stages ...any) bson.D {
	return bson.D{e("aggregate", "c"), e("pipeline", bson.A(stages)), e("cursor", bson.D{})}
}

// with is the operator and a server's outcome.
func (o Operator) with(outcome Outcome) (Operator, error) {
	o.Code, o.Text, o.Is = outcome.Code, outcome.Message, bson.RawValue{}
	if outcome.Message != "" {
		return o, nil
	}
	result := any(missing)
	batch, _ := outcome.Reply.Lookup("firstBatch").ArrayOK()
	answers, err := batch.Values()
	if err != nil && !strings.HasPrefix(o.Op, "update") {
		return o, err
	}
	switch family, _, _ := strings.Cut(o.Op, " "); family {
	case "find":
		ids := bson.A{}
		for _, answer := range answers {
			ids = append(ids, answer.Document().Lookup("_id"))
		}
		result = ids
	case "update":
		if v := outcome.Stored[0].Lookup("a"); !v.IsZero() {
			result = v
		}
	default:
		if v := answers[0].Document().Lookup("r"); !v.IsZero() {
			result = v
		}
	}
	o.Is.Type, o.Is.Value, err = bson.MarshalValue(result)
	return o, err
}

// Equal reports whether two outcomes of an operator are one, but for the texts.
func (o Operator) Equal(other Operator) bool {
	return o.Code == other.Code && o.Is.Type == other.Is.Type && bytes.Equal(o.Is.Value, other.Is.Value)
}
