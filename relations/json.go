package relations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// target is a tag in an array of a relation. With an Allow it is an object, without one a string.
type target struct {
	Tag   string `json:"tag"`
	Allow int    `json:"allow"`
}

// MarshalJSON implements [json.Marshaler].
func (t target) MarshalJSON() ([]byte, error) {
	if t.Allow == 0 {
		return json.Marshal(t.Tag)
	}
	type object target
	return json.Marshal(object(t))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *target) UnmarshalJSON(text []byte) error {
	if json.Unmarshal(text, &t.Tag) == nil && t.Tag != "" {
		return nil
	}
	type object target
	var fields map[string]json.RawMessage // package json takes Allow for allow
	err := json.Unmarshal(text, &fields)
	if err == nil {
		err = json.Unmarshal(text, (*object)(t))
	}
	null := string(fields["allow"]) == "null"
	delete(fields, "tag")
	delete(fields, "allow")
	if err != nil || t.Tag == "" || null || len(fields) > 0 {
		return fmt.Errorf(`%s is neither a tag nor {"tag": …, "allow": a whole number from 0 to %d}`, text, MaxAllow)
	}
	return nil
}

// MarshalJSON writes the rules in the form of monglock's lockRelationships,
// sorted, so that equal rules give equal text:
//
//	{"read":{"cooperative":["write"]},"write":{"cooperative":["write"],"assertive":["read"]}}
//
// A relation with an Allow, which monglock doesn't have, is an object in place
// of the string:
//
//	{"slot":{"assertive":[{"tag":"slot","allow":2}]}}
//
// Rules that Validate refuses are not written; MarshalJSON returns that error.
// Nil Rules are written as null.
func (r Rules) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	type row struct {
		Cooperative []target `json:"cooperative,omitempty"`
		Assertive   []target `json:"assertive,omitempty"`
	}
	table := make(map[string]row, len(r))
	for tag, relations := range r {
		var w row
		for _, other := range slices.Sorted(maps.Keys(relations)) {
			t := target{Tag: other, Allow: relations[other].Allow}
			switch relations[other].Kind {
			case Cooperative:
				w.Cooperative = append(w.Cooperative, t)
			case Assertive:
				w.Assertive = append(w.Assertive, t)
			}
		}
		table[tag] = w
	}
	return json.Marshal(table)
}

// UnmarshalJSON reads and validates the output of MarshalJSON, and monglock's
// lockRelationships unchanged. Its error Is ErrInvalidRules. It names the first fault of
// the text, such as a misspelt key, or a tag that is listed twice; in a right text it
// names all faults that Validate finds. On an error r keeps its value. A null keeps it
// too, without an error.
func (r *Rules) UnmarshalJSON(text []byte) error {
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return nil
	}
	rules, err := read(text)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrInvalidRules, err)
	}
	if err := rules.Validate(); err != nil {
		return err
	}
	*r = rules
	return nil
}

// read reads rules, valid or not.
func read(text []byte) (Rules, error) {
	var rows map[string]json.RawMessage
	if err := json.Unmarshal(text, &rows); err != nil {
		return nil, fmt.Errorf("the rules are not a JSON object of tags: %w", err)
	}
	if key := repeated(json.NewDecoder(bytes.NewReader(text))); key != "" {
		return nil, fmt.Errorf("%q is there twice in one object (put both together)", key)
	}
	rules := Rules{}
	for _, tag := range slices.Sorted(maps.Keys(rows)) {
		row, err := readRow(rows[tag])
		if err != nil {
			return nil, fmt.Errorf("tag %q: %w", tag, err)
		}
		rules[tag] = row
	}
	return rules, nil
}

// readRow reads the relations of one tag. A null in the place of an array counts as empty, as in monglock.
func readRow(text []byte) (map[string]Relation, error) {
	var kinds map[string][]target
	err := json.Unmarshal(text, &kinds)
	if err == nil && kinds == nil {
		err = errors.New("null")
	}
	if err != nil {
		return nil, fmt.Errorf(`its relations are not {"cooperative": [tags], "assertive": [tags]}: %w`, err)
	}
	row := map[string]Relation{}
	for _, kind := range []Kind{Cooperative, Assertive} {
		for _, t := range kinds[kind.String()] {
			switch was := row[t.Tag].Kind; was {
			case None:
				row[t.Tag] = Relation{Kind: kind, Allow: t.Allow}
			case kind:
				return nil, fmt.Errorf("%v to %q is given twice (once is enough)", kind, t.Tag)
			default:
				return nil, fmt.Errorf("both %v and %v to %q (choose one)", was, kind, t.Tag)
			}
		}
		delete(kinds, kind.String())
	}
	for key := range kinds {
		return nil, fmt.Errorf(`unknown key %q (keys: "cooperative", "assertive")`, key)
	}
	return row, nil
}

// repeated is a key that an object of the text has twice, or none. Package json takes the last of them: a relation
// would be lost.
func repeated(d *json.Decoder) string {
	open, _ := d.Token()
	if _, nested := open.(json.Delim); !nested {
		return ""
	}
	seen := map[string]bool{}
	for d.More() {
		if open == json.Delim('{') {
			token, _ := d.Token()
			key := token.(string)
			if seen[key] {
				return key
			}
			seen[key] = true
		}
		if key := repeated(d); key != "" {
			return key
		}
	}
	_, _ = d.Token() // the closing one
	return ""
}
