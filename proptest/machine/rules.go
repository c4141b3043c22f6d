package machine

import (
	"maps"
	"slices"

	"github.com/doclock/doclock/proptest/model"
	"github.com/doclock/doclock/relations"
	"pgregory.net/rapid"
)

// tagPool has the tags of generated rules. Some are the presets' too, because
// programs with different rules also use the same document.
var tagPool = []string{"read", "write", "slot", "a"}

// ghost is a tag that no rules have.
const ghost = "ghost"

// presets are the library's, and one in which an entry often overtakes a
// waiting entry: it ignores that entry, which respects it.
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

// drawRules draws a preset, or any rules of 1 to 4 tags.
func drawRules(t *rapid.T) relations.Rules {
	if rapid.IntRange(0, 1).Draw(t, "a preset") == 0 {
		return pick(t, "preset", presets)
	}
	tags := drawTags(t, 1, tagPool...)
	rules := relations.Rules{}
	for _, from := range tags {
		rules[from] = map[string]relations.Relation{}
		for _, to := range tags {
			cells := []relations.Relation{
				{}, {}, {},
				{Kind: relations.Cooperative}, {Kind: relations.Cooperative, Allow: 1}, {Kind: relations.Cooperative, Allow: 2},
				{Kind: relations.Assertive}, {Kind: relations.Assertive}, {Kind: relations.Assertive, Allow: 1}, {Kind: relations.Assertive, Allow: 2},
			}
			if r := rapid.SampledFrom(cells).Draw(t, from+"→"+to); r.Kind != relations.None {
				rules[from][to] = r
			}
		}
	}
	return rules
}

// drawOther draws the rules of another program on the same document: the same,
// any other, or the same with one more tag that ignores all others. An entry of
// that tag is not blocked by a waiting entry of the first program, which
// doesn't know the tag.
func drawOther(t *rapid.T, rules relations.Rules) relations.Rules {
	switch rapid.IntRange(0, 3).Draw(t, "other rules") {
	case 0:
		return rules
	case 1:
		return drawRules(t)
	default:
		wider := maps.Clone(rules)
		wider["late"] = map[string]relations.Relation{}
		return wider
	}
}

// drawTags draws some of the tags, in their order.
func drawTags(t *rapid.T, least int, of ...string) []string {
	tags := rapid.SliceOfNDistinct(rapid.SampledFrom(of), least, len(of), rapid.ID).Draw(t, "tags")
	slices.Sort(tags)
	return tags
}

// modelRules are the model's form of the library's rules.
func modelRules(of relations.Rules) model.Rules {
	rules := model.Rules{}
	kinds := map[relations.Kind]model.Kind{relations.None: model.None, relations.Cooperative: model.Cooperative, relations.Assertive: model.Assertive}
	for from, row := range of {
		rules[model.Tag(from)] = map[model.Tag]model.Relation{}
		for to, r := range row {
			rules[model.Tag(from)][model.Tag(to)] = model.Relation{Kind: kinds[r.Kind], Allow: r.Allow}
		}
	}
	return rules
}

func drawTag(t *rapid.T, rules model.Rules) model.Tag {
	return rapid.SampledFrom(rules.Tags()).Draw(t, "tag")
}
