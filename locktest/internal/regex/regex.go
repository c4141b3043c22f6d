// Package regex matches a server's regular expressions by Go's. Those that need
// more, such as a look-ahead or a back reference, are refused.
package regex

import (
	"regexp"
	"strings"
	"sync"

	"github.com/doclock/doclock/locktest/internal/value"
)

// compiled are the expressions that were used. Programs use few.
var compiled sync.Map

type source struct{ pattern, flags string }

// Match reports whether a text has a match.
func Match(pattern, flags, text string) (bool, error) {
	key := source{pattern, flags}
	if known, ok := compiled.Load(key); ok {
		return known.(*regexp.Regexp).MatchString(text), nil
	}
	for _, flag := range flags {
		if !strings.ContainsRune("imsu", flag) {
			return false, value.Unsupported("the option %q of a regular expression", flag)
		}
	}
	r, err := regexp.Compile(translated(pattern, strings.ReplaceAll(flags, "u", "")))
	if err != nil {
		return false, value.Unsupported("the regular expression %q: %v", pattern, err)
	}
	compiled.Store(key, r)
	return r.MatchString(text), nil
}

// translated is a server's expression as one of Go's. At a server $ matches before
// a line break at the end too; at the end of an expression that can be said
// without a look-ahead. The library's own expressions exclude it by a look-ahead.
func translated(pattern, flags string) string {
	switch body, found := strings.CutSuffix(pattern, `$(?!\n)`); {
	case found:
		pattern = body + `\z`
	case strings.Contains(flags, "m"):
	default:
		if body, found := strings.CutSuffix(pattern, "$"); found && !strings.HasSuffix(body, `\`) {
			pattern = body + `\n?\z`
		}
	}
	if flags != "" {
		pattern = "(?" + flags + ")" + pattern
	}
	return pattern
}
