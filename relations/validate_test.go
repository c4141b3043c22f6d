package relations

import (
	"errors"
	"strings"
	"testing"
)

func TestValidateNamesEveryFault(t *testing.T) {
	long := strings.Repeat("x", 65)
	for name, test := range map[string]struct {
		rules Rules
		want  []string // nil: valid
	}{
		"nil":                    {nil, []string{`the rules have no tags (the simplest rules are Exclusive, with one)`}},
		"empty":                  {Rules{}, []string{`the rules have no tags (the simplest rules are Exclusive, with one)`}},
		"tags without relations": {Rules{"a": nil, "b": {}}, nil},
		"relation none":          {Rules{"a": {"a": {}}}, nil},
		"every character of a tag": {Rules{
			"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-": nil}, nil},
		"empty tag":      {Rules{"": nil}, []string{`tag "": not a valid name (1 to 64 of the characters A-Z a-z 0-9 _ -)`}},
		"long tag":       {Rules{long: nil}, []string{`tag "` + long + `": not a valid name (1 to 64 of the characters A-Z a-z 0-9 _ -)`}},
		"dotted tag":     {Rules{"a.b": nil}, []string{`tag "a.b": not a valid name (1 to 64 of the characters A-Z a-z 0-9 _ -)`}},
		"dollar tag":     {Rules{"$a": nil}, []string{`tag "$a": not a valid name (1 to 64 of the characters A-Z a-z 0-9 _ -)`}},
		"accented tag":   {Rules{"é": nil}, []string{`tag "é": not a valid name (1 to 64 of the characters A-Z a-z 0-9 _ -)`}},
		"tag with a NUL": {Rules{"a\x00": nil}, []string{`tag "a\x00": not a valid name (1 to 64 of the characters A-Z a-z 0-9 _ -)`}},
		"unknown tag": {
			Rules{"read": nil, "write": {"raed": {Kind: Assertive}}},
			[]string{`tag "write": assertive to "raed", which is not a tag of the rules (tags: read, write)`},
		},
		"relation none to an unknown tag": {
			Rules{"a": {"b": {}}},
			[]string{`tag "a": none to "b", which is not a tag of the rules (tags: a)`},
		},
		"unknown kind": {
			Rules{"a": {"a": {Kind: 3}}},
			[]string{`tag "a": Kind(3) to "a": unknown kind (kinds: None, Cooperative, Assertive)`},
		},
		"negative allow": {
			Rules{"a": {"b": {Kind: Cooperative, Allow: -2}}, "b": nil},
			[]string{`tag "a": cooperative to "b" with allow -2, which is negative (0 or more)`},
		},
		"allow with none": {
			Rules{"a": {"a": {Allow: 1}}},
			[]string{`tag "a": none to "a" with allow 1, which has no effect (use Cooperative or Assertive, or leave Allow out)`},
		},
		"greatest allow": {Rules{"a": {"a": {Kind: Assertive, Allow: MaxAllow}}}, nil},
		"too great an allow": {
			Rules{"a": {"a": {Kind: Assertive, Allow: MaxAllow + 1}}},
			[]string{`tag "a": assertive to "a" with allow 10001, which is too many (at most 10000)`},
		},
		"all at once, in order": {
			Rules{
				"b c": {"z": {Kind: 9, Allow: -1}, "a": {Allow: 5}},
				"a":   {"zz": {Kind: Cooperative}, "a": {Kind: Cooperative, Allow: 20_000}},
			},
			[]string{
				`tag "a": cooperative to "a" with allow 20000, which is too many (at most 10000)`,
				`tag "a": cooperative to "zz", which is not a tag of the rules (tags: a, "b c")`,
				`tag "b c": not a valid name (1 to 64 of the characters A-Z a-z 0-9 _ -)`,
				`tag "b c": none to "a" with allow 5, which has no effect (use Cooperative or Assertive, or leave Allow out)`,
				`tag "b c": Kind(9) to "z", which is not a tag of the rules (tags: a, "b c")`,
				`tag "b c": Kind(9) to "z": unknown kind (kinds: None, Cooperative, Assertive)`,
				`tag "b c": Kind(9) to "z" with allow -1, which is negative (0 or more)`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 20 { // a map has another order each time
				err := test.rules.Validate()
				if test.want == nil {
					if err != nil {
						t.Fatal(err)
					}
					continue
				}
				if !errors.Is(err, ErrInvalidRules) {
					t.Fatalf("error %v is not ErrInvalidRules", err)
				}
				if want := "relations: invalid rules: " + strings.Join(test.want, "; "); err.Error() != want {
					t.Fatalf("error\n%v\nwant\n%v", err, want)
				}
			}
		})
	}
}

// The first entry of the queue can be granted when nobody holds, whatever the
// rules are: so no rules have a deadlock.
func TestAllRulesAreFreeOfDeadlocks(t *testing.T) {
	allTables(2, upToAllow(2), func(tab *table) {
		for _, s := range tab.explore(3).states {
			if s.held == ([maxTags]uint8{}) && s.waiting != "" && tab.blocked(s, 0) {
				t.Fatalf("%v: nobody holds, and %q waits for ever", tab, s.waiting)
			}
		}
	})
}
