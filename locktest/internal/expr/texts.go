package expr

import (
	"strings"

	"github.com/doclock/doclock/locktest/internal/regex"
	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func (s *Scope) concat(e bson.RawValue) bson.RawValue {
	var all strings.Builder
	for v := range s.each(e) {
		text, ok := v.StringValueOK()
		switch {
		case value.IsNullish(v):
			return value.Null
		case !ok:
			return s.refusef(16702, "$concat only supports strings, not %s", value.TypeName(v))
		}
		all.WriteString(text)
	}
	return value.String(all.String())
}

func (s *Scope) regexMatch(e bson.RawValue) bson.RawValue {
	input := s.eval(value.Get(e, "input"))
	pattern, options := s.eval(value.Get(e, "regex")), s.eval(value.Get(e, "options"))
	text, ok := input.StringValueOK()
	switch {
	case value.IsNullish(input) || value.IsNullish(pattern):
		return value.False
	case !ok:
		return s.refusef(51104, "$regexMatch needs 'input' to be of type string")
	}
	source, flags, ok := pattern.RegexOK()
	if !ok {
		source, ok = pattern.StringValueOK()
	}
	switch {
	case !ok:
		return s.refusef(51105, "$regexMatch needs 'regex' to be of type string or regex")
	case value.IsNullish(options):
	case options.Type != bson.TypeString:
		return s.refusef(51106, "$regexMatch needs 'options' to be of type string")
	case flags != "":
		return s.refusef(51107, "$regexMatch: found regex option(s) specified in both 'regex' and 'option' fields")
	default:
		flags = options.StringValue()
	}
	matches, err := regex.Match(source, flags, text)
	if err != nil {
		return s.refuse(err)
	}
	return value.Bool(matches)
}
