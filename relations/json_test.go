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

func TestUnmarshalJSONNamesTheFault(t *testing.T) {
	const notATarget = ` is neither a tag nor {"tag": …, "allow": a whole number from 0 to 10000}`
	for text, want := range map[string]string{
		`["read"]`:     `the rules are not a JSON object of tags: `,
		`1e999`:        `the rules are not a JSON object of tags: `,
		`{"a": {}`:     `the rules are not a JSON object of tags: unexpected end`,
		`{"a": {}} x`:  `the rules are not a JSON object of tags: invalid character 'x'`,
		`{}`:           `the rules have no tags (the simplest rules are Exclusive, with one)`,
		`{"a": ["a"]}`: `tag "a": its relations are not {"cooperative": [tags], "assertive": [tags]}: `,
		`{"a": null}`:  `tag "a": its relations are not {"cooperative": [tags], "assertive": [tags]}: null`,
		`{"a": {"assertive": [{"tag": "a", "allow": null}]}}`:           `{"tag": "a", "allow": null}` + notATarget,
		`{"a": {"assertive": [{"tag": "a", "allow": 1, "Allow": 2}]}}`:  `{"tag": "a", "allow": 1, "Allow": 2}` + notATarget,
		`{"a": {"assertive": "a"}}`:                                     `tag "a": its relations are not {"cooperative": [tags], "assertive": [tags]}: `,
		`{"a": {"Cooperative": ["a"]}}`:                                 `tag "a": unknown key "Cooperative" (keys: "cooperative", "assertive")`,
		`{"a": {"cooperative": ["a"], "assertive": ["a"]}}`:             `tag "a": both cooperative and assertive to "a" (choose one)`,
		`{"a": {"assertive": ["a", {"tag": "a", "allow": 1}]}}`:         `tag "a": assertive to "a" is given twice (once is enough)`,
		`{"a": {}, "a": {"assertive": ["a"]}}`:                          `"a" is there twice in one object (put both together)`,
		`{"a": {"assertive": ["a"], "assertive": []}}`:                  `"assertive" is there twice in one object (put both together)`,
		`{"a": {"assertive": [{"tag": "a", "allow": 1, "allow": 2}]}}`:  `"allow" is there twice in one object (put both together)`,
		`{"a": {"assertive": [1]}}`:                                     `1` + notATarget,
		`{"a": {"assertive": [null]}}`:                                  `null` + notATarget,
		`{"a": {"assertive": [""]}}`:                                    `""` + notATarget,
		`{"a": {"assertive": [{"allow": 1}]}}`:                          `{"allow": 1}` + notATarget,
		`{"a": {"assertive": [{"tag": null}]}}`:                         `{"tag": null}` + notATarget,
		`{"a": {"assertive": [{"tag": "a", "allow": 1.5}]}}`:            `{"tag": "a", "allow": 1.5}` + notATarget,
		`{"a": {"assertive": [{"tag": "a", "alow": 1}]}}`:               `{"tag": "a", "alow": 1}` + notATarget,
		`{"a": {"assertive": [{"tag": "a", "allow": -1}]}}`:             `tag "a": assertive to "a" with allow -1, which is negative`,
		`{"a": {"assertive": ["b"]}, "c": {"cooperative": ["a", "d"]}}`: `tag "a": assertive to "b", which is not a tag of the rules (tags: a, c); tag "c": cooperative to "d", `,
	} {
		rules := Exclusive()
		err := rules.UnmarshalJSON([]byte(text))
		if !errors.Is(err, ErrInvalidRules) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error\n%v\nwant\n%v", text, err, want)
		}
		if diff := cmp.Diff(Exclusive(), rules); diff != "" {
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
