package expr

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// arguments are those of the operators that have names for them. The first ones
// must be there.
var arguments = map[string]struct {
	needed  int
	allowed []string
}{
	"$cond":       {3, []string{"if", "then", "else"}},
	"$switch":     {1, []string{"branches", "default"}},
	"$let":        {2, []string{"vars", "in"}},
	"$filter":     {2, []string{"input", "cond", "as"}},
	"$map":        {2, []string{"input", "in", "as"}},
	"$regexMatch": {2, []string{"input", "regex", "options"}},
}

// exact are the operators that take a fixed number of operands.
var exact = map[string]int{
	"$allElementsTrue": 1, "$anyElementTrue": 1, "$arrayToObject": 1, "$isArray": 1, "$not": 1, "$objectToArray": 1, "$size": 1, "$toLong": 1, "$type": 1,
	"$arrayElemAt": 2, "$cmp": 2, "$eq": 2, "$gt": 2, "$gte": 2, "$in": 2, "$lt": 2, "$lte": 2, "$ne": 2, "$setIsSubset": 2, "$subtract": 2,
	"$cond": 3,
}

// Check refuses an expression that a server would not parse, or that has an
// operator which is not known, also in a part that need not be evaluated.
func Check(e bson.RawValue) error {
	switch e.Type {
	case bson.TypeArray:
		for _, element := range value.Fields(e) {
			if err := Check(element); err != nil {
				return err
			}
		}
	case bson.TypeEmbeddedDocument:
		return checkDocument(e)
	case bson.TypeString:
		if path, found := strings.CutPrefix(e.StringValue(), "$"); found {
			return checkPath(path)
		}
	}
	return nil
}

func checkDocument(e bson.RawValue) error {
	n, operator := 0, false
	for key, field := range value.Fields(e) {
		n++
		operator = operator || strings.HasPrefix(key, "$")
		var err error
		switch {
		case operator && n > 1:
			err = value.Refuse(15983, "an expression must have exactly one field: %s", e)
		case operator:
			err = checkOperator(key, field)
		case strings.Contains(key, "."):
			err = value.Refuse(16412, "FieldPath field names may not contain '.': %s", key)
		default:
			err = Check(field)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func checkPath(path string) error {
	variable, isVariable := strings.CutPrefix(path, "$")
	switch {
	case path == "":
		return value.Refuse(16872, "'$' by itself is not a valid FieldPath")
	case isVariable && (variable == "" || variable[0] == '.'):
		return value.Refuse(16869, "empty variable names are not allowed")
	case strings.HasSuffix(path, "."):
		return value.Refuse(40353, "FieldPath must not end with a '.': '$%s'", path)
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(path, "$"), ".") {
		if err := value.CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

func checkOperator(name string, operand bson.RawValue) error {
	if _, known := operators[name]; !known {
		return value.Unsupported("the expression %s", name)
	}
	named, ok := arguments[name]
	switch {
	case name == "$literal":
		return nil
	case !ok || name == "$cond" && !value.IsDocument(operand):
		return checkOperands(name, operand)
	case !value.IsDocument(operand):
		return value.Refuse(value.FailedToParse, "%s needs an object with %s", name, strings.Join(named.allowed, ", "))
	}
	needed := 0
	for argument, v := range value.Fields(operand) {
		i := slices.Index(named.allowed, argument)
		if i < 0 {
			return value.Unsupported("the parameter %q of %s", argument, name)
		}
		if i < named.needed {
			needed++
		}
		err := Check(v)
		if argument == "as" {
			err = checkVariable(value.Text(v))
		}
		for variable := range value.Fields(v) {
			if argument == "vars" && err == nil {
				err = checkVariable(variable)
			}
		}
		if err != nil {
			return err
		}
	}
	if needed < named.needed {
		return value.Refuse(value.FailedToParse, "Missing parameter to %s, which needs %s", name, strings.Join(named.allowed[:named.needed], ", "))
	}
	return nil
}

// checkVariable refuses a name that no variable of a user can have.
func checkVariable(name string) error {
	if name == "CURRENT" {
		return value.Unsupported("a variable CURRENT")
	}
	if name == "" {
		return value.Refuse(16866, "empty variable names are not allowed")
	}
	for i, c := range name {
		if lower := c >= 'a' && c <= 'z' || c >= utf8.RuneSelf; !lower && (i == 0 || c != '_' && (c < '0' || c > '9') && (c < 'A' || c > 'Z')) {
			return value.Refuse(16867+int32(min(i, 1)), "'%s' has an invalid character for a user variable name: '%c'", name, c)
		}
	}
	return nil
}

// CheckVariables refuses a variable that is not known, in an expression that [Check] has passed, or in stages that have some.
func (s *Scope) CheckVariables(e bson.RawValue) error {
	if text, ok := e.StringValueOK(); ok && strings.HasPrefix(text, "$$") {
		name, _, _ := strings.Cut(text[2:], ".")
		s.variable(name)
	}
	for key, v := range value.Fields(e) {
		switch key {
		case "$literal":
		case "$let", "$filter", "$map":
			outer := s.vars
			_ = s.CheckVariables(value.Get(v, "input"))
			_ = s.CheckVariables(value.Get(v, "vars"))
			for name := range value.Fields(value.Get(v, "vars")) {
				s.bind(name, value.Missing)
			}
			if key != "$let" {
				s.bind(elementName(value.Get(v, "as")), value.Missing)
			}
			_ = s.CheckVariables(value.Get(v, "in"))
			_ = s.CheckVariables(value.Get(v, "cond"))
			s.vars = outer
		default:
			_ = s.CheckVariables(v)
		}
	}
	return s.err
}

// checkOperands checks an operator with a list of operands. One alone needs no list.
func checkOperands(name string, operand bson.RawValue) error {
	n := 1
	if value.IsArray(operand) {
		n = 0
		for range value.Fields(operand) {
			n++
		}
	}
	switch wanted, fixed := exact[name]; {
	case fixed && n != wanted:
		return value.Refuse(16020, "Expression %s takes exactly %d arguments. %d were passed in.", name, wanted, n)
	case name == "$ifNull" && n < 2:
		return value.Refuse(1257300, "$ifNull needs at least two arguments, had: %d", n)
	case name == "$slice" && n != 2 && n != 3:
		return value.Refuse(28667, "Expression $slice takes at least 2 arguments, and at most 3, but %d were passed in.", n)
	}
	return Check(operand)
}
