package expr

import (
	"cmp"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Let computes the variables of a command's `let`, which see no document.
func Let(let, now bson.RawValue) (value.Document, error) {
	var vars value.Document
	for name, e := range value.Fields(let) {
		if err := cmp.Or(checkVariable(name), Check(e)); err != nil {
			return nil, err
		}
		if reads(e) {
			return nil, value.Refuse(4890500, "Command let Expression tried to access a field, but this is not allowed: %s", name)
		}
		v, err := (&Scope{Now: now}).Eval(e)
		if err != nil {
			return nil, err
		}
		vars = append(vars, value.Field{Key: name, Value: v})
	}
	return vars, nil
}

// reads reports whether an expression reads a field of the document.
func reads(e bson.RawValue) bool {
	if text, ok := e.StringValueOK(); ok {
		return strings.HasPrefix(text, "$") && !strings.HasPrefix(text, "$$") || strings.HasPrefix(text, "$$ROOT") || strings.HasPrefix(text, "$$CURRENT")
	}
	for key, v := range value.Fields(e) {
		if key != "$literal" && reads(v) {
			return true
		}
	}
	return false
}
