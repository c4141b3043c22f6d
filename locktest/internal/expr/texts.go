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
	pattern, flags := s.eval(value.Get(e, "regex")), value.Text(s.eval(value.Get(e, "options")))
	text, ok := input.StringValueOK()
	switch {
	case value.IsNullish(input) || value.IsNullish(pattern):
		return value.False
	case !ok:
		return s.refusef(51104, "$regexMatch needs 'input' to be of type string")
	}
	source, ok := pattern.StringValueOK()
	if !ok {
		source, flags, ok = pattern.RegexOK()
	}
	if !ok {
		return s.refusef(51105, "$regexMatch needs 'regex' to be of type string or regex")
	}
	matches, err := regex.Match(source, flags, text)
	if err != nil {
		return s.refuse(err)
	}
	return value.Bool(matches)
}
