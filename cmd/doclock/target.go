package main

import (
	"encoding/json"
	"strings"

	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/oneline"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// target is the document that a NAME or a FILTER means.
type target struct {
	filter bson.D
	named  bool // by a NAME: the document of a named lock
	text   string
}

// parseTarget reads a NAME, a FILTER, or an _id in extended JSON.
func parseTarget(arg string) (target, error) {
	switch {
	case arg == "":
		return target{}, usage("the NAME is empty; give a name, or a filter such as '{\"_id\": 7}'")
	case !strings.HasPrefix(arg, "{"):
		return target{filter: bson.D{{Key: "_id", Value: arg}}, named: true, text: arg}, nil
	}
	value, err := parseValue("the FILTER", arg)
	if err != nil {
		return target{}, err
	}
	if value.Type != bson.TypeEmbeddedDocument {
		return target{filter: bson.D{{Key: "_id", Value: value}}, text: arg}, nil
	}
	filter, err := parseDocument("the FILTER", arg)
	return target{filter: filter, text: arg}, err
}

// parseDocument reads a document that isn't empty in extended JSON.
func parseDocument(what, text string) (bson.D, error) {
	value, err := parseValue(what, text)
	if err != nil {
		return nil, err
	}
	var doc bson.D
	if value.Unmarshal(&doc) != nil || len(doc) == 0 {
		return nil, usage("%s is empty or no document; an empty one means every document", what)
	}
	return doc, nil
}

// parseValue reads a value in extended JSON.
func parseValue(what, text string) (bson.RawValue, error) {
	var holder bson.Raw
	err := json.Unmarshal([]byte(text), new(json.RawMessage)) // of itself, and not with what is put around it
	if err == nil {
		err = bson.UnmarshalExtJSON([]byte(`{"v":`+text+`}`), false, &holder)
	}
	if err != nil {
		return bson.RawValue{}, usage(`%s is not extended JSON, as '{"_id": 7}' is: %s: %v`, what, text, err)
	}
	return holder.Lookup("v"), nil
}

// word is a document's _id as an argument that means it, ready to be pasted into
// a shell.
func word(id bson.RawValue) string {
	if name, ok := id.StringValueOK(); ok && isName(name) {
		return quoted(name)
	}
	text := bsonvalue.Readable(id)
	switch id.Type {
	case bson.TypeObjectID, bson.TypeBinary, bson.TypeDateTime, bson.TypeDecimal128:
	default:
		text = `{"_id":` + text + `}`
	}
	return quoted(text)
}

// quoted is a text as one word of a shell, in quotes if it needs them.
func quoted(text string) string {
	if strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_./:@%+=,") == "" {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// isName reports whether a string can be a NAME, and looks like what it is.
func isName(s string) bool {
	return s != "" && s[0] != '-' && s[0] != '{' && oneline.Text(s) == s
}
