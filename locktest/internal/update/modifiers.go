package update

import (
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// modifier makes of the value at the end of a path, which may be missing, the new
// one. A missing result removes the field.
type modifier = func(bson.RawValue) (bson.RawValue, error)

// modifiers make an operator's modifier of its operand.
var modifiers = map[string]func(Update, change) (modifier, error){
	"$set":         set,
	"$setOnInsert": set,
	"$unset": func(Update, change) (modifier, error) {
		return func(bson.RawValue) (bson.RawValue, error) { return value.Missing, nil }, nil
	},
	"$inc":         func(_ Update, c change) (modifier, error) { return arithmetic(c, c.operand, value.Add) },
	"$mul":         mul,
	"$min":         func(_ Update, c change) (modifier, error) { return extreme(c, -1), nil },
	"$max":         func(_ Update, c change) (modifier, error) { return extreme(c, 1), nil },
	"$currentDate": currentDate,
	"$push":        push,
	"$addToSet":    addToSet,
	"$pull":        pull,
	"$pullAll":     pullAll,
	"$pop":         pop,
	"$rename":      rename,
}

// keepers are the operators that make nothing where a path leads nowhere.
var keepers = map[string]bool{"$unset": true, "$pull": true, "$pullAll": true, "$pop": true}

func set(_ Update, c change) (modifier, error) {
	return func(bson.RawValue) (bson.RawValue, error) { return c.operand, nil }, nil
}

// rename checks a $rename, which is no modifier: it moves a value.
func rename(_ Update, c change) (modifier, error) {
	to, ok := c.operand.StringValueOK()
	if !ok {
		return nil, value.Refuse(value.BadValue, "The 'to' field for $rename must be a string: %s", c.path)
	}
	if err := checkPath(to); err != nil {
		return nil, err
	}
	switch {
	case within(c.path, to) || within(to, c.path):
		return nil, value.Refuse(value.BadValue, "The source and target field for $rename must differ, and not be on the same path: %s", c.path)
	case strings.Contains(c.path+to, "$["):
		return nil, value.Refuse(value.BadValue, "The fields of $rename may not be dynamic: %s", c.path)
	}
	return nil, nil
}

func arithmetic(c change, missing bson.RawValue, compute func(a, b bson.RawValue) (bson.RawValue, error)) (modifier, error) {
	if !value.IsNumber(c.operand) {
		return nil, value.Refuse(value.TypeMismatch, "Cannot %s with non-numeric argument: {%s: %s}", c.operator, c.path, c.operand)
	}
	return func(v bson.RawValue) (bson.RawValue, error) {
		switch {
		case value.IsMissing(v):
			return missing, nil
		case !value.IsNumber(v):
			return v, value.Refuse(value.TypeMismatch, "Cannot apply %s to a value of non-numeric type: the field '%s' is of type %s", c.operator, c.path, value.TypeName(v))
		}
		result, err := compute(v, c.operand)
		if err == nil && result.Type == bson.TypeDouble && v.Type != bson.TypeDouble && c.operand.Type != bson.TypeDouble {
			err = value.Refuse(value.BadValue, "Failed to apply %s operations to current value (%s) for the field '%s': it would overflow", c.operator, v, c.path)
		}
		return result, err
	}, nil
}

// mul makes a zero of the operand's type where the field is missing.
func mul(_ Update, c change) (modifier, error) {
	zero, err := value.Multiply(c.operand, value.Int(0))
	if err != nil {
		return nil, err
	}
	return arithmetic(c, zero, value.Multiply)
}

func extreme(c change, sign int) modifier {
	return func(v bson.RawValue) (bson.RawValue, error) {
		if value.IsMissing(v) || sign*value.Compare(c.operand, v) > 0 {
			return c.operand, nil
		}
		return v, nil
	}
}

func currentDate(u Update, c change) (modifier, error) {
	kind := value.Get(c.operand, "$type")
	if c.operand.Type != bson.TypeBoolean && value.Text(kind) != "date" {
		return nil, value.Unsupported("$currentDate of other types than a date (path %s)", c.path)
	}
	return func(bson.RawValue) (bson.RawValue, error) { return u.Now, nil }, nil
}
