package expr

import (
	"slices"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// associative are the operators whose constants are computed together: all of them,
// which then come last, or, if their order counts, those that stand side by side.
var associative = map[string]struct{ ordered bool }{
	"$add": {}, "$multiply": {}, "$and": {}, "$or": {}, "$max": {}, "$min": {}, "$sum": {}, "$setUnion": {},
	"$concat": {true}, "$concatArrays": {true}, "$mergeObjects": {true},
}

// Fold computes what needs no document of an expression, which [Check] has passed, as
// MongoDB does before it reads one, but not in updates. So an operator whose constants
// can't be computed is refused, also in a part that no document needs.
func (s *Scope) Fold(e bson.RawValue) (bson.RawValue, error) {
	folded, _ := s.fold(e)
	return folded, s.err
}

// FoldFields does so with each field of a specification.
func (s *Scope) FoldFields(spec bson.RawValue) (bson.RawValue, error) {
	folded, _ := s.foldNamed(value.Open(spec))
	return folded, s.err
}

// fold returns the expression, and whether it is constant. The variables in the scope
// are those of the command; inner ones are missing values there.
func (s *Scope) fold(e bson.RawValue) (folded bson.RawValue, constant bool) {
	switch e.Type {
	case bson.TypeString:
		name, isVariable := strings.CutPrefix(e.StringValue(), "$$")
		if !isVariable {
			return e, !strings.HasPrefix(e.StringValue(), "$")
		}
		if name, _, _ = strings.Cut(name, "."); name == "ROOT" || name == "CURRENT" || s.isInner(name) {
			return e, false
		}
		return literal(s.eval(e)), true
	case bson.TypeArray:
		folded, constant = s.foldNamed(value.Open(value.Doc(e.Value))) // by their numbers
		return bson.RawValue{Type: bson.TypeArray, Value: folded.Value}, constant
	case bson.TypeEmbeddedDocument:
		fields := value.Open(e)
		if len(fields) == 1 && strings.HasPrefix(fields[0].Key, "$") {
			return s.foldOperator(fields[0].Key, fields[0].Value)
		}
		return s.foldNamed(fields)
	default:
		return e, true
	}
}

// inner is the value of a variable whose value is not known in advance.
var inner = bson.RawValue{Type: bson.TypeUndefined, Value: []byte{}}

func (s *Scope) isInner(name string) bool {
	for v := s.vars; v != nil; v = v.outer {
		if v.name == name {
			return v.value.Type == inner.Type
		}
	}
	return false
}

func literal(v bson.RawValue) bson.RawValue {
	if value.IsMissing(v) {
		return value.String("$$REMOVE")
	}
	return value.Document{{Key: "$literal", Value: v}}.Close()
}

func (s *Scope) foldNamed(fields value.Document) (folded bson.RawValue, constant bool) {
	constant = true
	for i, f := range fields {
		var known bool
		fields[i].Value, known = s.fold(f.Value)
		constant = constant && known
	}
	return fields.Close(), constant
}

// foldOperator folds an operator. $let, $filter, $map and $switch are never constant.
func (s *Scope) foldOperator(name string, operand bson.RawValue) (folded bson.RawValue, constant bool) {
	whole := func(operand bson.RawValue) bson.RawValue { return value.Document{{Key: name, Value: operand}}.Close() }
	switch {
	case name == "$literal":
		return whole(operand), true
	case name == "$let", name == "$filter", name == "$map":
		return whole(s.foldInner(name, value.Open(operand))), false
	case value.IsDocument(operand) && arguments[name].needed > 0:
		if operand, constant = s.foldNamed(value.Open(operand)); constant && name != "$switch" {
			return literal(s.eval(whole(operand))), true
		}
		return whole(operand), false
	}
	return s.foldOperands(name, operand)
}

// foldInner folds the arguments of an operator that has variables of its own.
func (s *Scope) foldInner(name string, d value.Document) bson.RawValue {
	outer := s.vars
	defer func() { s.vars = outer }()
	for i, f := range d {
		switch f.Key {
		case "vars":
			d[i].Value, _ = s.foldNamed(value.Open(f.Value))
		case "input":
			d[i].Value, _ = s.fold(f.Value)
		}
	}
	if name == "$let" {
		for variable := range value.Fields(d.Get("vars")) {
			s.bind(variable, inner)
		}
	} else {
		s.bind(elementName(d.Get("as")), inner)
	}
	for i, f := range d {
		if f.Key == "in" || f.Key == "cond" {
			d[i].Value, _ = s.fold(f.Value)
		}
	}
	return d.Close()
}

// foldOperands folds an operator with a list of operands.
func (s *Scope) foldOperands(name string, operand bson.RawValue) (folded bson.RawValue, constant bool) {
	list := []bson.RawValue{operand}
	if value.IsArray(operand) {
		list = value.Elements(operand)
	}
	known := make([]bool, len(list))
	for i, e := range list {
		list[i], known[i] = s.fold(e)
	}
	compute := func(list []bson.RawValue) bson.RawValue {
		return literal(s.eval(value.Document{{Key: name, Value: value.Array(list)}}.Close()))
	}
	if !slices.Contains(known, false) {
		return compute(list), true
	}
	lastKnown := known[len(known)-1]
	if together, ok := associative[name]; ok && len(list) > 1 {
		var constants, operands []bson.RawValue
		lastKnown = false
		end := func() {
			if len(constants) > 1 {
				constants = []bson.RawValue{compute(constants)}
			}
			operands, constants = append(operands, constants...), nil
		}
		for i, e := range list {
			switch {
			case known[i]:
				constants, lastKnown = append(constants, e), true
				continue
			case together.ordered:
				end()
			}
			lastKnown = lastKnown && !together.ordered
			operands = append(operands, e)
		}
		end()
		list = operands
	}
	last := list[len(list)-1]
	switch {
	case (name == "$and" || name == "$or") && lastKnown && value.Truth(s.eval(last)) == (name == "$or"):
		return literal(value.Bool(name == "$or")), true
	case name == "$setIsSubset" && lastKnown && !value.IsArray(s.eval(last)):
		s.refusef(17311, "both operands of $setIsSubset must be arrays. Second argument is of type: %s", value.TypeName(s.eval(last)))
	}
	return value.Document{{Key: name, Value: value.Array(list)}}.Close(), false
}
