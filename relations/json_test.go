package relations

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTableOfMonglocksReadmeLoadsAsItStands(t *testing.T) {
	const text = `{"read": {"cooperative": ["write"]}, "write": {"cooperative": ["write"], "assertive": ["read"]}}`
	var got Rules
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(WritePreferring(), got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestOtherShapesThatMonglockTakesLoad(t *testing.T) {
	const text = `{"a": {"cooperative": null, "assertive": []}, "b": {}}`
	var got Rules
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Rules{"a": {}, "b": {}}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestMarshalJSONWritesMonglocksShapeSorted(t *testing.T) {
	rules := Rules{
		"write": {"write": {Kind: Cooperative}, "read": {Kind: Assertive}, "list": {Kind: Assertive, Allow: 3}},
		"read":  {"write": {Kind: Cooperative}, "list": {Kind: Cooperative}, "read": {}},
		"list":  nil,
	}
	const want = `{"list":{},"read":{"cooperative":["list","write"]},` +
		`"write":{"cooperative":["write"],"assertive":[{"tag":"list","allow":3},"read"]}}`
	for range 20 { // a map has another order each time
		got, err := json.Marshal(rules)
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Fatalf("got  %s\nwant %s", got, want)
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
	back := struct{ Rules Rules }{Exclusive()}
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	got := Exclusive()
	if err := got.UnmarshalJSON([]byte(" null\n")); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Exclusive(), got); diff != "" {
		t.Errorf("null changed the rules (-want +got):\n%s", diff)
	}
}

func TestUnmarshalJSONNamesEveryFault(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"an array":       {`["read"]`, `the rules are an array, not an object of tags`},
		"a string":       {`"read"`, `the rules are a string, not an object of tags`},
		"a boolean":      {`true`, `the rules are a boolean, not an object of tags`},
		"a number":       {`1e999`, `the rules are a number, not an object of tags`},
		"no tags":        {`{}`, `the rules have no tags (the simplest rules are Exclusive, with one)`},
		"row: null":      {`{"a": null}`, `tag "a": its relations are null, not an object of "cooperative" and "assertive"`},
		"row: array":     {`{"a": ["a"]}`, `tag "a": its relations are an array, not an object of "cooperative" and "assertive"`},
		"unknown key":    {`{"a": {"Cooperative": ["a"]}}`, `tag "a": unknown key "Cooperative" (keys: "cooperative", "assertive")`},
		"not an array":   {`{"a": {"assertive": "a"}}`, `tag "a": "assertive" is not an array of tags, but "a"`},
		"both":           {`{"a": {"cooperative": ["a"], "assertive": ["a"]}}`, `tag "a": both cooperative and assertive to "a" (choose one)`},
		"twice":          {`{"a": {"assertive": ["a", {"tag": "a", "allow": 1}]}}`, `tag "a": assertive to "a" is given twice (once is enough)`},
		"tag twice":      {`{"a": {}, "a": {"assertive": ["a"]}}`, `tag "a": defined twice (put its relations together)`},
		"kind twice":     {`{"a": {"assertive": ["a"], "assertive": []}}`, `tag "a": "assertive" is given twice (put its tags together)`},
		"to a number":    {`{"a": {"assertive": [1]}}`, `tag "a": assertive to 1, which is neither a tag nor {"tag": …, "allow": …}`},
		"to null":        {`{"a": {"assertive": [null]}}`, `tag "a": assertive to null, which is neither a tag nor {"tag": …, "allow": …}`},
		"no tag":         {`{"a": {"assertive": [{"allow": 1}]}}`, `tag "a": assertive to {"allow":1}, which has no "tag"`},
		"odd tag":        {`{"a": {"assertive": [{"tag": null}]}}`, `tag "a": assertive to {"tag":null}, whose "tag" is not a string`},
		"odd allow":      {`{"a": {"assertive": [{"tag": "a", "allow": 1.5}]}}`, `tag "a": assertive to {"tag":"a","allow":1.5}, whose "allow" is not a whole number from 0 to 10000`},
		"no allow":       {`{"a": {"assertive": [{"tag": "a", "allow": null}]}}`, `tag "a": assertive to {"tag":"a","allow":null}, whose "allow" is not a whole number from 0 to 10000`},
		"unknown field":  {`{"a": {"assertive": [{"tag": "a", "alow": 1}]}}`, `tag "a": assertive to {"tag":"a","alow":1}, which has the unknown key "alow" (keys: "tag", "allow")`},
		"field twice":    {`{"a": {"assertive": [{"tag": "a", "tag": "a"}]}}`, `tag "a": assertive to {"tag":"a","tag":"a"}, which has "tag" twice`},
		"negative allow": {`{"a": {"assertive": [{"tag": "a", "allow": -1}]}}`, `tag "a": assertive to "a" with allow -1, which is negative (0 or more; n at a time is allow n-1, and n is at least 1)`},
		"all at once": {
			`{"a": {"coop": ["a"], "assertive": ["b", 3]}, "c": {"cooperative": ["a", "a"]}}`,
			`tag "a": unknown key "coop" (keys: "cooperative", "assertive"); ` +
				`tag "a": assertive to 3, which is neither a tag nor {"tag": …, "allow": …}; ` +
				`tag "c": cooperative to "a" is given twice (once is enough); ` +
				`tag "a": assertive to "b", which is not a tag of the rules (tags: a, c)`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			rules := Exclusive()
			err := json.Unmarshal([]byte(test.text), &rules)
			if !errors.Is(err, ErrInvalidRules) {
				t.Fatalf("error %v is not ErrInvalidRules", err)
			}
			if got := strings.TrimPrefix(err.Error(), "relations: invalid rules: "); got != test.want {
				t.Errorf("error\n%v\nwant\n%v", got, test.want)
			}
			if diff := cmp.Diff(Exclusive(), rules); diff != "" {
				t.Errorf("rules changed in spite of an error (-want +got):\n%s", diff)
			}
		})
	}
}

func TestUnmarshalJSONOfBrokenTextIsInvalidRules(t *testing.T) {
	for _, text := range []string{"", "{", `{"a": {`, `{"a": {}} x`} {
		var rules Rules
		if err := rules.UnmarshalJSON([]byte(text)); !errors.Is(err, ErrInvalidRules) {
			t.Errorf("%q: %v", text, err)
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
		if diff := cmp.Diff(rules, back); diff != "" {
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
