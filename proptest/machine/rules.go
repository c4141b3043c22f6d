package machine

import (
	"maps"

	"github.com/doclock/doclock/proptest/model"
	"github.com/doclock/doclock/relations"
	"pgregory.net/rapid"
)

// tagPool are the tags of generated tables, some of them the presets' too: a
// document is also met by programs whose tables differ.
var tagPool = []string{"read", "write", "slot", "a"}

// ghost is a tag that no table knows.
const ghost = "ghost"

// presets are the library's, and one in which a waiting entry is easily
// overtaken by somebody who ignores it, whom it respects.
var presets = []relations.Rules{
	overtaken,
	overtaken,
	relations.Exclusive(),
	relations.ReadPreferring(),
	relations.WritePreferring(),
	relations.Fair(),
	relations.Fair(),
	relations.Semaphore(1),
	relations.Semaphore(2),
	relations.Semaphore(3),
	relations.MultiGranularity(),
}

var overtaken = relations.Rules{
	"a":     {"read": {Kind: relations.Assertive}, "write": {Kind: relations.Cooperative}},
	"read":  {},
	"write": {},
}

// drawTable draws a preset, or any table of 1 to 4 tags.
func drawTable(t *rapid.T) model.Table {
	if rapid.IntRange(0, 1).Draw(t, "a preset") == 0 {
		return tableOf(pick(t, "preset", presets))
	}
	tags := rapid.SampledFrom(subsets(tagPool)).Draw(t, "tags")
	table := model.Table{}
	for _, from := range tags {
		table[model.Tag(from)] = map[model.Tag]model.Relation{}
		for _, to := range tags {
			cells := []model.Relation{
				{}, {}, {},
				{Kind: model.Cooperative}, {Kind: model.Cooperative, Allow: 1}, {Kind: model.Cooperative, Allow: 2},
				{Kind: model.Assertive}, {Kind: model.Assertive}, {Kind: model.Assertive, Allow: 1}, {Kind: model.Assertive, Allow: 2},
			}
			if r := rapid.SampledFrom(cells).Draw(t, from+"→"+to); r.Kind != model.None {
				table[model.Tag(from)][model.Tag(to)] = r
			}
		}
	}
	return table
}

// drawOther draws the table of another program on the same document: the same,
// any other, or one with a tag more, that ignores all others. Whoever has that
// one is not kept back by an entry of the first that waits, which doesn't know it.
func drawOther(t *rapid.T, table model.Table) model.Table {
	switch rapid.IntRange(0, 3).Draw(t, "another table") {
	case 0:
		return table
	case 1:
		return drawTable(t)
	default:
		wider := maps.Clone(table)
		wider["late"] = map[model.Tag]model.Relation{}
		return wider
	}
}

// subsets lists those that have at least one element, small ones first.
func subsets(of []string) [][]string {
	var all [][]string
	for size := 1; size <= len(of); size++ {
		for bits := range 1 << len(of) {
			var some []string
			for i, tag := range of {
				if bits&(1<<i) != 0 {
					some = append(some, tag)
				}
			}
			if len(some) == size {
				all = append(all, some)
			}
		}
	}
	return all
}

// tableOf is the model's table of the library's rules.
func tableOf(rules relations.Rules) model.Table {
	table := model.Table{}
	kinds := map[relations.Kind]model.Kind{relations.None: model.None, relations.Cooperative: model.Cooperative, relations.Assertive: model.Assertive}
	for from, row := range rules {
		table[model.Tag(from)] = map[model.Tag]model.Relation{}
		for to, r := range row {
			table[model.Tag(from)][model.Tag(to)] = model.Relation{Kind: kinds[r.Kind], Allow: r.Allow}
		}
	}
	return table
}

// rulesOf are the library's rules of the model's table.
func rulesOf(table model.Table) relations.Rules {
	rules := relations.Rules{}
	kinds := map[model.Kind]relations.Kind{model.None: relations.None, model.Cooperative: relations.Cooperative, model.Assertive: relations.Assertive}
	for from, row := range table {
		rules[string(from)] = map[string]relations.Relation{}
		for to, r := range row {
			rules[string(from)][string(to)] = relations.Relation{Kind: kinds[r.Kind], Allow: r.Allow}
		}
	}
	return rules
}

func drawTag(t *rapid.T, table model.Table) model.Tag {
	return rapid.SampledFrom(table.Tags()).Draw(t, "tag")
}
