package relations

import (
	"cmp"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// What monglock takes is read as it stands, and written in its form and sorted.
func TestJSONIsMonglocks(t *testing.T) {
	for text, c := range map[string]struct {
		rules   Rules
		written string // or as the text
	}{
		`{"read":{"cooperative":["write"]},"write":{"cooperative":["write"],"assertive":["read"]}}`: {WritePreferring(), ""},
		`{"b": {}, "a": {"cooperative": null, "assertive": []}}`:                                    {Rules{"a": {}, "b": {}}, `{"a":{},"b":{}}`},
		`{"list":{},"read":{"assertive":[{"tag":"list","allow":3},"read"]}}`: {
			Rules{"list": {}, "read": {"read": {Kind: Assertive}, "list": {Kind: Assertive, Allow: 3}}}, ""},
	} {
		var got Rules
		if err := json.Unmarshal([]byte(text), &got); err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(c.rules, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		for range 20 { // a map has another order each time
			if written, err := json.Marshal(got); err != nil || string(written) != cmp.Or(c.written, text) {
				t.Fatalf("%s is written as %s, %v", text, written, err)
			}
		}
	}
}

func TestMarshalJSONRefusesInvalidRules(t *testing.T) {
	for _, rules := range []Rules{{}, {"a": {"b": {Kind: Cooperative}}}, {"a": {"a": {Kind: 4}}}} {
		if text, err := json.Marshal(rules); !errors.Is(err, ErrInvalidRules) {
			t.Errorf("%v: %s, %v", rules, text, err)
		}
	}
}

func TestNilRulesAreNull(t *testing.T) {
	text, err := json.Marshal(struct{ Rules Rules }{})
	if err != nil || string(text) != `{"Rules":null}` {
		t.Errorf("%s, %v", text, err)
	}
	got := Exclusive()
	if err := got.UnmarshalJSON([]byte(" null\n")); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(Exclusive(), got); diff != "" {
		t.Errorf("null changed the rules (-want +got):\n%s", diff)
	}
}

func TestUnmarshalJSONNamesTheFault(t *testing.T) {
	const ofTheTag = ` (relations are {"cooperative": ["tag", {"tag": "tag", "allow": 1}, …], "assertive": […]})`
	for text, want := range map[string][]string{
		`["read"]`:                     {`array`, `(rules are {"tag": {its relations}, …})`},
		`{"a": {}`:                     {`unexpected EOF`},
		`{"a": {}} x`:                  {`more follows`},
		`{}`:                           {`the rules have no tags (the simplest rules are Exclusive, with one)`},
		`{"a": ["a"]}`:                 {`tag "a": `, `array`, ofTheTag},
		`{"a": {"assertive": "a"}}`:    {`tag "a": `, `string`, ofTheTag},
		`{"a": {"cooperativ": ["a"]}}`: {`tag "a": json: unknown field "cooperativ"`, ofTheTag},
		`{"a": {"cooperative": ["a"], "assertive": ["a"]}}`:             {`tag "a": it has two relations to "a" (choose one)`},
		`{"a": {"assertive": ["a", {"tag": "a", "allow": 1}]}}`:         {`tag "a": it has two relations to "a" (choose one)`},
		`{"a": {}, "a": {"assertive": ["a"]}}`:                          {`"a" is there twice in one object (put both together)`},
		`{"a": {"assertive": ["a"], "assertive": []}}`:                  {`"assertive" is there twice in one object (put both together)`},
		`{"a": {"assertive": [{"tag": "a", "allow": 1, "allow": 2}]}}`:  {`"allow" is there twice in one object (put both together)`},
		`{"a": {"assertive": [1]}}`:                                     {`tag "a": `, `number`, ofTheTag},
		`{"a": {"assertive": [null]}}`:                                  {`tag "a": a relation has no tag`, ofTheTag},
		`{"a": {"assertive": [{"allow": 1}]}}`:                          {`tag "a": a relation has no tag`, ofTheTag},
		`{"a": {"assertive": [{"tag": "a", "allow": 1.5}]}}`:            {`tag "a": `, `number 1.5`, ofTheTag},
		`{"a": {"assertive": [{"tag": "a", "alow": 1}]}}`:               {`tag "a": json: unknown field "alow"`, ofTheTag},
		`{"a": {"assertive": [{"tag": "a", "allow": -1}]}}`:             {`tag "a": assertive to "a" with allow -1, which is negative`},
		`{"a": {"assertive": ["b"]}, "c": {"cooperative": ["a", "d"]}}`: {`tag "a": assertive to "b", which is not a tag of the rules (tags: a, c); tag "c": cooperative to "d", `},
	} {
		rules := Exclusive()
		err := rules.UnmarshalJSON([]byte(text))
		for _, part := range want {
			if !errors.Is(err, ErrInvalidRules) || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error\n%v\nwant\n%v", text, err, part)
			}
		}
		if diff := gocmp.Diff(Exclusive(), rules); diff != "" {
			t.Errorf("%s: rules changed in spite of an error (-want +got):\n%s", text, diff)
		}
	}
}

// validRules draws any rules that Validate accepts.
var validRules = rapid.Custom(func(t *rapid.T) Rules {
	tags := rapid.SliceOfNDistinct(rapid.StringMatching(`[A-Za-z0-9_-]{1,64}`), 1, 5, rapid.ID[string]).Draw(t, "tags")
	rules := Rules{}
	for _, x := range tags {
		rules[x] = map[string]Relation{}
		for _, y := range tags {
			kind := rapid.SampledFrom([]Kind{None, Cooperative, Assertive}).Draw(t, "kind")
			if kind != None {
				allow := rapid.OneOf(rapid.Just(0), rapid.IntRange(0, MaxAllow)).Draw(t, "allow")
				rules[x][y] = Relation{Kind: kind, Allow: allow}
			}
		}
	}
	return rules
})

func TestJSONRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rules := validRules.Draw(t, "rules")
		if err := rules.Validate(); err != nil {
			t.Fatal(err)
		}
		text, err := json.Marshal(rules)
		if err != nil {
			t.Fatal(err)
		}
		var back Rules
		if err := json.Unmarshal(text, &back); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if diff := gocmp.Diff(rules, back); diff != "" {
			t.Fatalf("%s comes back changed (-want +got):\n%s", text, diff)
		}
	})
}

// Reading never panics, whatever the text is, and never accepts invalid rules.
func FuzzUnmarshalJSON(f *testing.F) {
	f.Add(`{"read": {"cooperative": ["write"]}, "write": {"assertive": ["read", {"tag": "write", "allow": 2}]}}`)
	f.Add(`{"a": {"assertive": [null, {}, {"tag": 1, "allow": "x"}], "b": 1}, "a": null}`)
	f.Fuzz(func(t *testing.T, text string) {
		var rules Rules
		if err := rules.UnmarshalJSON([]byte(text)); err != nil {
			if !errors.Is(err, ErrInvalidRules) || rules != nil {
				t.Errorf("%q: rules %v, error %v", text, rules, err)
			}
			return
		}
		if rules != nil && rules.Validate() != nil {
			t.Errorf("%q is read as %v: %v", text, rules, rules.Validate())
		}
	})
}

// Package json takes "Cooperative" for "cooperative", and the last of both: two writers would hold at once.
func TestUnmarshalJSONLosesNoRelation(t *testing.T) {
	for _, text := range []string{
		`{"read":{}, "write":{"cooperative":["write"], "Cooperative":["read"]}}`,
		`{"slot":{"assertive":[{"tag":"slot","allow":1,"ALLOW":9}]}}`,
	} {
		var rules Rules
		if err := rules.UnmarshalJSON([]byte(text)); !errors.Is(err, ErrInvalidRules) {
			t.Errorf("%s became %v, %v", text, rules, err)
		}
	}
	var rules Rules // tags are names, letter by letter
	if err := rules.UnmarshalJSON([]byte(`{"s":{}, "S":{"cooperative":["S"]}}`)); err != nil || len(rules) != 2 {
		t.Errorf("%v, %v", rules, err)
	}
}
