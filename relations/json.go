package relations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// row has the relations of one tag, in the form of monglock's lockRelationships.
type row struct {
	Cooperative []target `json:"cooperative,omitempty"`
	Assertive   []target `json:"assertive,omitempty"`
}

// target is the tag of a relation: with an Allow an object, without one a string.
type target struct {
	Tag   string `json:"tag"`
	Allow int    `json:"allow"`
}

// object is a target's other form.
type object target

// MarshalJSON implements [json.Marshaler].
func (t target) MarshalJSON() ([]byte, error) {
	if t.Allow == 0 {
		return json.Marshal(t.Tag)
	}
	return json.Marshal(object(t))
}

// UnmarshalJSON implements [json.Unmarshaler].
func (t *target) UnmarshalJSON(text []byte) error {
	err := json.Unmarshal(text, &t.Tag)
	if err != nil {
		err = decode(text, (*object)(t))
	}
	if err == nil && t.Tag == "" {
		err = errors.New("a relation has no tag")
	}
	return err
}

// MarshalJSON writes the rules in the form of monglock's lockRelationships,
// sorted, so that equal rules give equal text:
//
//	{"read":{"cooperative":["write"]},"write":{"cooperative":["write"],"assertive":["read"]}}
//
// A relation with an Allow, which monglock doesn't have, is an object in place
// of the string: {"tag":"slot","allow":2}. Nil Rules are written as null, and rules
// that Validate refuses are not written.
func (r Rules) MarshalJSON() ([]byte, error) {
	if r == nil {
		return []byte("null"), nil
	}
	if err := r.Validate(); err != nil {
		return nil, err
	}
	rows := make(map[string]row, len(r))
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
		rows[tag] = w
	}
	return json.Marshal(rows)
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
	if err := decode(text, &rows); err != nil {
		return nil, fmt.Errorf(`%w (rules are {"tag": {its relations}, …})`, err)
	}
	if key := repeated(json.NewDecoder(bytes.NewReader(text)), 0); key != "" {
		return nil, fmt.Errorf("%q is there twice in one object (put both together)", key)
	}
	rules := Rules{}
	for _, tag := range slices.Sorted(maps.Keys(rows)) {
		var w row
		if err := decode(rows[tag], &w); err != nil {
			return nil, fmt.Errorf(`tag %q: %w (relations are {"cooperative": ["tag", {"tag": "tag", "allow": 1}, …], "assertive": […]})`, tag, err)
		}
		rules[tag] = map[string]Relation{}
		for kind, targets := range map[Kind][]target{Cooperative: w.Cooperative, Assertive: w.Assertive} {
			for _, t := range targets {
				if _, twice := rules[tag][t.Tag]; twice {
					return nil, fmt.Errorf("tag %q: it has two relations to %q (choose one)", tag, t.Tag)
				}
				rules[tag][t.Tag] = Relation{Kind: kind, Allow: t.Allow}
			}
		}
	}
	return rules, nil
}

// decode reads one value, with no more fields than the target has.
func decode(text []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if _, more := d.Token(); err == nil && more != io.EOF {
		err = errors.New("more follows the first value")
	}
	return err
}

// repeated is a key that an object of the text has twice, or none. Package json takes the last of them, and below the
// tags it ignores the case: a relation would be lost.
func repeated(d *json.Decoder, depth int) string {
	open, _ := d.Token()
	if _, nested := open.(json.Delim); !nested {
		return ""
	}
	seen := map[string]bool{}
	for d.More() {
		if open == json.Delim('{') {
			token, _ := d.Token()
			key := token.(string)
			same := key
			if depth > 0 {
				same = strings.ToUpper(key)
			}
			if seen[same] {
				return key
			}
			seen[same] = true
		}
		if key := repeated(d, depth+1); key != "" {
			return key
		}
	}
	_, _ = d.Token() // the closing one
	return ""
}
