package query

import (
	"strings"

	"github.com/doclock/doclock/locktest/internal/expr"
	"github.com/doclock/doclock/locktest/internal/regex"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Check refuses a filter that a server would not parse, or that has an operator
// which is not known, whatever the documents are.
func (q Query) Check(filter bson.RawValue) error {
	if !value.IsDocument(filter) && !value.IsMissing(filter) {
		return value.Refuse(value.TypeMismatch, "a filter must be a document, and is of type %s", value.TypeName(filter))
	}
	for key, condition := range value.Fields(filter) {
		check := CheckCondition
		if strings.HasPrefix(key, "$") {
			check = func(operand bson.RawValue) error { return q.checkJoint(key, operand) }
		}
		if err := check(condition); err != nil {
			return err
		}
	}
	return nil
}

// checkJoint checks an operator that stands where a field's name would.
func (q Query) checkJoint(name string, operand bson.RawValue) error {
	switch name {
	case "$and", "$or", "$nor":
		filters := value.Elements(operand)
		if len(filters) == 0 {
			return value.Refuse(value.BadValue, "%s must be a nonempty array", name)
		}
		for _, filter := range filters {
			if !value.IsDocument(filter) {
				return value.Refuse(value.BadValue, "%s argument's entries must be objects", name)
			}
			if err := q.Check(filter); err != nil {
				return err
			}
		}
		return nil
	case "$expr":
		if err := expr.Check(operand); err != nil {
			return err
		}
		return (&expr.Scope{}).With(q.Let).CheckVariables(operand)
	case "$comment":
		return nil
	default:
		return value.Unsupported("the query operator %s", name)
	}
}

// CheckCondition checks a condition on a value.
func CheckCondition(condition bson.RawValue) error {
	if pattern, flags, ok := condition.RegexOK(); ok {
		_, err := regex.Match(pattern, flags, "")
		return err
	}
	if !IsOperators(condition) {
		return nil
	}
	for name, operand := range value.Fields(condition) {
		if err := checkOperator(name, operand, condition); err != nil {
			return err
		}
	}
	return nil
}

func checkOperator(name string, operand, condition bson.RawValue) error {
	_, whole := value.Whole(operand)
	switch name {
	case "$eq", "$exists", "$comment":
		return nil
	case "$ne", "$gt", "$gte", "$lt", "$lte":
		if operand.Type == bson.TypeRegex {
			return value.Refuse(value.BadValue, "Can't have regex as arg to %s.", name)
		}
		return nil
	case "$in", "$nin", "$all":
		return checkList(name, operand)
	case "$not":
		if !IsOperators(operand) && operand.Type != bson.TypeRegex {
			return value.Refuse(value.BadValue, "$not needs a regex or a document")
		}
		return CheckCondition(operand)
	case "$type":
		return checkTypes(operand)
	case "$regex":
		pattern, flags, err := regexOf(condition)
		if err == nil {
			_, err = regex.Match(pattern, flags, "")
		}
		return err
	case "$options":
		if value.IsMissing(value.Get(condition, "$regex")) {
			return value.Refuse(value.BadValue, "$options needs a $regex")
		}
		return nil
	case "$size":
		if n, _ := value.Whole(operand); !whole || n != int64(int32(n)) || n < 0 {
			return value.Refuse(value.BadValue, "$size must be a whole number of 32 bits, and at least 0: %s", operand)
		}
		return nil
	case "$elemMatch":
		switch {
		case !value.IsDocument(operand):
			return value.Refuse(value.BadValue, "$elemMatch needs an Object")
		case ofValues(operand):
			return CheckCondition(operand)
		}
		if err := WithoutExpr(operand, value.BadValue); err != nil {
			return err
		}
		return Query{}.Check(operand)
	default:
		return value.Unsupported("the query operator %s", name)
	}
}

func checkList(name string, operand bson.RawValue) error {
	if !value.IsArray(operand) {
		return value.Refuse(value.BadValue, "%s needs an array", name)
	}
	all := value.Elements(operand)
	for _, v := range all {
		if IsOperators(v) != IsOperators(all[0]) || IsOperators(v) && (name != "$all" || value.IsMissing(value.Get(v, "$elemMatch"))) {
			return value.Refuse(value.BadValue, "cannot nest $ under %s", name)
		}
		if err := CheckCondition(v); err != nil {
			return err
		}
	}
	return nil
}

func checkTypes(operand bson.RawValue) error {
	types := []bson.RawValue{operand}
	if value.IsArray(operand) {
		if types = value.Elements(operand); len(types) == 0 {
			return value.Refuse(value.FailedToParse, "$type must match at least one type")
		}
	}
	for _, t := range types {
		if _, err := value.HasType(value.Null, t); err != nil {
			return err
		}
	}
	return nil
}

// regexOf is a condition's $regex, with its $options.
func regexOf(condition bson.RawValue) (pattern, flags string, err error) {
	operand, options := value.Get(condition, "$regex"), value.Get(condition, "$options")
	pattern, flags, ok := operand.RegexOK()
	if !ok {
		pattern, ok = operand.StringValueOK()
	}
	switch {
	case !ok:
		err = value.Refuse(value.BadValue, "$regex has to be a string")
	case value.IsMissing(options):
	case options.Type != bson.TypeString:
		err = value.Refuse(value.BadValue, "$options has to be a string")
	case flags != "":
		err = value.Refuse(51075, "options set in both $regex and $options")
	default:
		flags = options.StringValue()
	}
	return pattern, flags, err
}

// WithoutExpr refuses a filter with an $expr: an upsert can't have one, and no filter of an array's elements.
func WithoutExpr(filter bson.RawValue, code int32) error {
	for key, operand := range value.Fields(filter) {
		if key == "$expr" {
			return value.Refuse(code, "$expr is not allowed in this context")
		}
		for _, part := range value.Elements(operand) {
			if !strings.HasPrefix(key, "$") {
				break
			}
			if err := WithoutExpr(part, code); err != nil {
				return err
			}
		}
	}
	return nil
}
