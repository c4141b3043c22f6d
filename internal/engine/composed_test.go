package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/doclock/doclock/relations"
)

// marks are the values of what stands in angle brackets.
type marks = map[string]any

// page is docs/layout-commands.json.
type page struct {
	*testing.T
	shapes marks
	parts  marks
}

func readPage(t *testing.T) page {
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", "layout-commands.json"))
	must(t, err)
	p := page{T: t}
	must(t, json.Unmarshal(text, &p.shapes))
	p.parts = p.shapes["parts"].(marks)
	return p
}

// table is rules as docs/layout.md has them: [tag][kind] is a list of tags, or of
// {"tag": …, "allow": …}.
type table map[string]map[string][]any

func tableOf(t *testing.T, rules relations.Rules) (all table) {
	text, err := json.Marshal(rules)
	must(t, err)
	must(t, json.Unmarshal(text, &all))
	return all
}

func (r table) relation(tag, other string) (kind string, allow float64) {
	for kind, list := range r[tag] {
		for _, to := range list {
			if counted, ok := to.(marks); ok && counted["tag"] == other {
				return kind, counted["allow"].(float64)
			} else if to == other {
				return kind, 0
			}
		}
	}
	return "", 0
}

// commands composes those for one tag that a client needs, as docs/layout.md says.
func (p page) commands(rules table, tag string) marks {
	id := func(base64 string) marks { return marks{"$binary": marks{"base64": base64, "subType": "04"}} }
	own, next := id("ERERESIiQzOERFVVVVVVVQ=="), id("ZmZmZnd3SIiZmQAAAAAAAA==")
	of := func(more marks) marks {
		m := marks{
			"collection": "documents", "tag": tag, "query": marks{"_id": 1.0}, "_id…": marks{"_id": 1.0}, "id": own, "fence": float64(n0), "owner": "owner",
			"held ms": 10500.0, "granted ms": 10500.0, "waiting ms": 4500.0, "until…": marks{}, "k": 1.0, "level": "majority",
			"operators…": marks{"$inc": marks{"n": 1.0}}, "stages…": []any{marks{"$set": marks{"n": 1.0}}},
			"remainder id": id("cmVtYWluZGVyJ3MgaWQuLg=="), "until": marks{"$date": "2030-06-01T12:00:10.5Z"}, "ids…": []any{own, next},
		}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	least := of(marks{"granted ms": 30500.0, "least ms": 30500.0})
	all := marks{
		"acquire": p.arrival(rules, tag, true, of(nil)), "try": p.arrival(rules, tag, false, of(nil)),
		"acquire and hold at least": p.arrival(rules, tag, true, least),
		"confirm":                   p.confirmation(rules, tag, of(nil)), "confirm and hold at least": p.confirmation(rules, tag, least),
		"remove two": p.fill("clean up", of(nil)),
	}
	for name := range p.shapes {
		switch name {
		case "acquire", "confirm", "clean up", "make", "proof", "parts":
		default:
			all[strings.Replace(name, ", operators", ", classic", 1)] = p.fill(name, of(nil))
		}
	}
	return all
}

// arrival composes an acquire that may wait, or one that does not.
func (p page) arrival(rules table, tag string, mayWait bool, m marks) any {
	var open []string
	var refused, blocked []any
	live, tags, waiter := marks{}, marks{}, false
	for i, other := range slices.Sorted(maps.Keys(rules)) {
		kind, allow := rules.relation(tag, other)
		waiter = waiter || kind == "assertive"
		here := marks{"i": fmt.Sprint(i), "other": other, "allow": allow}
		switch test := p.part("test", here); {
		case kind == "assertive" && mayWait:
			blocked = append(blocked, test)
		case kind != "" && allow == 0:
			continue
		case kind != "":
			refused = append(refused, test)
		}
		open = append(open, other)
		maps.Copy(live, p.part("live", here).(marks))
		if other != tag {
			tags[other] = p.part("tag", here)
		} else {
			tags[other] = p.part("own tag", here)
		}
	}
	suffix := ""
	if len(blocked) > 0 {
		suffix = ", may wait"
		m["blocked"] = anyOne(blocked)
	}
	if m["least ms"] != nil {
		m["until…"] = p.part("until"+suffix, m)
	}
	m["entry"] = p.part("entry"+suffix, m)
	if tags[tag] == nil {
		tags[tag] = []any{"<entry>"}
	}
	m["tags…"] = expand(tags, m)
	m["entered"] = p.part("entered"+suffix, m)
	if len(refused) > 0 {
		m["refused"] = anyOne(refused)
		m["entered"] = p.part("entered, unless refused", m)
	}
	m["repeat ms"] = m["held ms"]
	if waiter {
		m["repeat ms"] = p.part("repeat ms, may wait", m)
	}
	m["live…"], m["open…"] = live, []any{}
	if len(open) > 0 {
		m["open…"] = []any{p.part("open", marks{"tags": strings.Join(open, "|")})}
	}
	return p.fill("acquire", m)
}

// confirmation composes a confirm.
func (p page) confirmation(rules table, tag string, m marks) any {
	known := slices.Sorted(maps.Keys(rules))
	live, tags, blocked := marks{}, marks{}, []any{}
	m["confirmed ms"] = m["held ms"]
	if m["least ms"] != nil {
		m["until…"] = p.part("confirm: until", m)
		m["confirmed ms"] = p.part("confirm: confirmed ms", m)
	}
	m["entry"] = p.part("confirm: entry", m)
	for i, other := range known {
		kind, allow := rules.relation(tag, other)
		here := marks{"i": fmt.Sprint(i), "other": other, "allow": allow}
		if kind != "" {
			blocked = append(blocked, p.part("confirm: test", here))
		}
		maps.Copy(live, p.part("confirm: live", here).(marks))
		tags[other] = p.part("tag", here)
		if other == tag {
			tags[other] = p.part("own tag", here)
		}
	}
	m["live…"], m["tags…"], m["blocked…"] = expand(live, m), expand(tags, m), blocked
	m["known"] = p.part("open", marks{"tags": strings.Join(known, "|")})
	return p.fill("confirm", m)
}

func (p page) fill(shape string, m marks) any { return expand(p.shapes[shape], m) }
func (p page) part(name string, m marks) any  { return expand(p.parts[name], m) }

func anyOne(tests []any) any {
	if len(tests) == 1 {
		return tests[0]
	}
	return marks{"$or": tests}
}

// expand puts values in the place of marks: "<x>" is a value, or text in a text; "<x…>" stands
// for elements of an array, or, as a key, for fields. Marks without a value stay.
func expand(shape any, m marks) any {
	mark := func(text string) (any, bool) {
		name, bracketed := strings.CutPrefix(text, "<")
		value, there := m[strings.TrimSuffix(name, ">")]
		return value, bracketed && there
	}
	switch shape := shape.(type) {
	case string:
		if value, is := mark(shape); is {
			return value
		}
		for name, value := range m {
			if text, ok := value.(string); ok {
				shape = strings.ReplaceAll(shape, "<"+name+">", text)
			}
		}
		return shape
	case []any:
		all := []any{}
		for _, element := range shape {
			if text, ok := element.(string); ok && strings.HasSuffix(text, "…>") {
				if elements, is := mark(text); is {
					all = append(all, elements.([]any)...)
					continue
				}
			}
			all = append(all, expand(element, m))
		}
		return all
	case marks:
		all := marks{}
		for key, value := range shape {
			if fields, is := mark(key); is && strings.HasSuffix(key, "…>") {
				maps.Copy(all, fields.(marks))
				continue
			}
			all[expand(key, m).(string)] = expand(value, m)
		}
		return all
	}
	return shape
}
