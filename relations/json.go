package relations

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// allowance is the form of a tag with an allow; a tag without one is a string.
type allowance struct {
	Tag   string `json:"tag"`
	Allow int    `json:"allow"`
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
		Cooperative []any `json:"cooperative,omitempty"`
		Assertive   []any `json:"assertive,omitempty"`
	}
	table := make(map[string]row, len(r))
	for tag, relations := range r {
		table[tag] = row{
			Cooperative: elements(relations, Cooperative),
			Assertive:   elements(relations, Assertive),
		}
	}
	return json.Marshal(table)
}

// elements returns the array of one kind: tags, and allowances.
func elements(relations map[string]Relation, kind Kind) []any {
	var list []any
	for _, tag := range slices.Sorted(maps.Keys(relations)) {
		rel := relations[tag]
		switch {
		case rel.Kind != kind:
		case rel.Allow == 0:
			list = append(list, tag)
		default:
			list = append(list, allowance{Tag: tag, Allow: rel.Allow})
		}
	}
	return list
}

// UnmarshalJSON reads and validates the output of MarshalJSON, and monglock's
// lockRelationships unchanged. Its error Is ErrInvalidRules and names all
// faults at once: those of Validate, and faults of the text, such as misspelt
// keys, tags that are listed twice, and tags that are both cooperative and
// assertive. On an error r keeps its value. A null keeps it too, without an
// error.
func (r *Rules) UnmarshalJSON(text []byte) error {
	var compact bytes.Buffer // so that a fault quotes one line
	if err := json.Compact(&compact, text); err != nil {
		return invalid([]string{fmt.Sprintf("the rules are not JSON: %v", err)})
	}
	if text = compact.Bytes(); isNull(text) {
		return nil
	}
	d := decoder{rules: Rules{}}
	if !d.table(text) {
		return invalid(d.faults)
	}
	if err := invalid(append(d.faults, d.rules.faults()...)); err != nil {
		return err
	}
	*r = d.rules
	return nil
}

// A decoder reads rules and goes on after a fault, to find the others.
type decoder struct {
	rules  Rules
	faults []string
}

func (d *decoder) fault(format string, args ...any) {
	d.faults = append(d.faults, fmt.Sprintf(format, args...))
}

// table reads all the rules; false means that there are none to validate.
func (d *decoder) table(text []byte) bool {
	rows, err := members(text)
	if err != nil {
		d.fault("the rules are %v, not an object of tags", err)
		return false
	}
	for _, row := range rows {
		if _, twice := d.rules[row.key]; twice {
			d.fault("tag %q: defined twice (put its relations together)", row.key)
			continue
		}
		d.rules[row.key] = map[string]Relation{}
		d.row(row.key, row.value)
	}
	return true
}

// row reads the relations of one tag.
func (d *decoder) row(tag string, text []byte) {
	kinds, err := members(text)
	if err != nil {
		d.fault(`tag %q: its relations are %v, not an object of "cooperative" and "assertive"`, tag, err)
		return
	}
	seen := map[string]bool{}
	for _, kind := range kinds {
		if seen[kind.key] {
			d.fault("tag %q: %q is given twice (put its tags together)", tag, kind.key)
		}
		seen[kind.key] = true
		switch kind.key {
		case Cooperative.String():
			d.kind(tag, Cooperative, kind.value)
		case Assertive.String():
			d.kind(tag, Assertive, kind.value)
		default:
			d.fault(`tag %q: unknown key %q (keys: "cooperative", "assertive")`, tag, kind.key)
		}
	}
}

// kind reads the array of one kind of relation of tag. Null counts as an empty
// array, as in monglock.
func (d *decoder) kind(tag string, kind Kind, text []byte) {
	var list []json.RawMessage
	if err := json.Unmarshal(text, &list); err != nil {
		d.fault("tag %q: %q is not an array of tags, but %s", tag, kind.String(), text)
		return
	}
	for _, element := range list {
		other, allow, ok := d.element(tag, kind, element)
		if !ok {
			continue
		}
		switch was := d.rules[tag][other].Kind; was {
		case None:
			d.rules[tag][other] = Relation{Kind: kind, Allow: allow}
		case kind:
			d.fault("tag %q: %v to %q is given twice (once is enough)", tag, kind, other)
		default:
			d.fault("tag %q: both %v and %v to %q (choose one)", tag, was, kind, other)
		}
	}
}

// element reads one element of such an array: a tag, or an allowance.
func (d *decoder) element(tag string, kind Kind, text []byte) (other string, allow int, ok bool) {
	if !isNull(text) && json.Unmarshal(text, &other) == nil {
		return other, 0, true
	}
	fields, err := members(text)
	if err != nil {
		d.fault(`tag %q: %v to %s, which is neither a tag nor {"tag": …, "allow": …}`, tag, kind, text)
		return "", 0, false
	}
	ok = true
	seen := map[string]bool{}
	for _, field := range fields {
		if seen[field.key] {
			d.fault("tag %q: %v to %s, which has %q twice", tag, kind, text, field.key)
			ok = false
		}
		seen[field.key] = true
		switch field.key {
		case "tag":
			if isNull(field.value) || json.Unmarshal(field.value, &other) != nil {
				d.fault(`tag %q: %v to %s, whose "tag" is not a string`, tag, kind, text)
				ok = false
			}
		case "allow":
			if isNull(field.value) || json.Unmarshal(field.value, &allow) != nil {
				d.fault(`tag %q: %v to %s, whose "allow" is not a whole number from 0 to %d`, tag, kind, text, MaxAllow)
				ok = false
			}
		default:
			d.fault(`tag %q: %v to %s, which has the unknown key %q (keys: "tag", "allow")`, tag, kind, text, field.key)
			ok = false
		}
	}
	if !seen["tag"] {
		d.fault(`tag %q: %v to %s, which has no "tag"`, tag, kind, text)
		ok = false
	}
	return other, allow, ok
}

// member is one key of a JSON object with its value.
type member struct {
	key   string
	value json.RawMessage
}

// members returns the members of a JSON object, in its order; a key that
// appears twice gives two members. If the text is no object, the error says
// what it is.
func members(text []byte) ([]member, error) {
	// The text is known to be JSON, so the decoder finds no fault in it.
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	first, _ := d.Token()
	switch first.(type) {
	case json.Delim:
		if first != json.Delim('{') {
			return nil, errors.New("an array")
		}
	case nil:
		return nil, errors.New("null")
	case string:
		return nil, errors.New("a string")
	case bool:
		return nil, errors.New("a boolean")
	default:
		return nil, errors.New("a number")
	}
	var list []member
	for d.More() {
		key, _ := d.Token()
		var value json.RawMessage
		_ = d.Decode(&value)
		list = append(list, member{key: key.(string), value: value})
	}
	return list, nil
}

func isNull(text []byte) bool { return string(text) == "null" }
