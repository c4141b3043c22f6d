package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/doclock/doclock/proptest/mutants"
)

// alone are faults of internal/engine/expr.go that only this evaluation notices: the tests' server
// evaluates as lazily as they need it.
var alone = []mutants.Mutant{{
	Name: "$and protects the search through the ids",
	Why:  "on a document without a lock, which is every first one, an acquire may raise 40081",
	Edits: []mutants.Edit{{
		Old: `return call("$in", id, arrayOf(d.own+"."+idKey))`,
		New: `return all(call("$isArray", d.own+"."+idKey), call("$in", id, d.own+"."+idKey))`,
	}},
}, {
	Name: "$and protects the look at all tags",
	Why:  "a field that isn't a lock may raise 40390, and not be reported as foreign",
	Edits: []mutants.Edit{{
		Old: "return cond(\n",
		New: "return all(\n",
	}, {
		Old: "call(\"$eq\", call(\"$type\", \"$$t.v\"), \"null\")))}),\n\t\tfalse)",
		New: `call("$eq", call("$type", "$$t.v"), "null")))}))`,
	}},
}, {
	Name: "the next fence is computed before the field is known to be a lock",
	Why:  "MongoDB evaluates all variables of a $let: an arrival raises 14 or 241 for a foreign fence",
	Edits: []mutants.Edit{{
		Old: `arrive := let(append(d.survivors(exclusive), bson.E{Key: "next", Value: d.next()}), entered)`,
		New: `arrive := let(append(d.survivors(exclusive), bson.E{Key: "unused", Value: 0}), entered)`,
	}, {
		Old: `let(bson.D{{Key: "again", Value: d.there(id)}}, d.ours(`,
		New: `let(bson.D{{Key: "again", Value: d.there(id)}, {Key: "next", Value: d.next()}}, d.ours(`,
	}},
}, {
	Name: "$and protects the image's look at the own entry",
	Why:  "an arrival that was executed is answered with an error",
	Edits: []mutants.Edit{{
		Old: `own := filter(arrayOf(d.own), "e", call("$eq", "$$e."+idKey, id))
	return nth(mapped(own, "e", "$$e."+fenceKey), 0)`,
		New: `own := filter(d.own, "e", call("$eq", "$$e."+idKey, id))
	return all(call("$isArray", d.own), nth(mapped(own, "e", "$$e."+fenceKey), 0))`,
	}},
}, {
	Name: "tags are compared by the collection's collation",
	Why:  "if it ignores case, a program that knows \"read\" misses a holder of \"READ\" in another program",
	Edits: []mutants.Edit{{
		Old: `return bson.D{{Key: "$regexMatch", Value: bson.D{{Key: "input", Value: tag}, {Key: "regex", Value: names}}}}`,
		New: `_ = names
	return call("$in", tag, tags)`,
	}},
}}

// catchAll checks that the evaluations agree without a fault, and disagree with
// each of them.
func (e *evaluation) catchAll(ctx context.Context) error {
	if err := e.short(ctx); err != nil {
		return fmt.Errorf("without a fault: %w", err)
	}
	for _, m := range alone {
		if err := e.seeded(ctx, m); !errors.Is(err, errDisagreement) {
			return fmt.Errorf("%s: not noticed: %v", m.Name, err)
		}
		fmt.Println("caught:", m.Name)
	}
	return nil
}

// seeded is a short run with a fault.
func (e *evaluation) seeded(ctx context.Context, m mutants.Mutant) (err error) {
	dir, err := os.MkdirTemp("", "doclock-mutant")
	if err != nil {
		return err
	}
	defer func() { err = cmp.Or(err, os.RemoveAll(dir)) }()
	m.File = "internal/engine/expr.go"
	overlay, err := m.Overlay(e.root, dir)
	if err != nil {
		return err
	}
	return e.short(ctx, "-overlay="+overlay)
}

// short is a short run with drawn rules. flags are the compiler's.
func (e *evaluation) short(ctx context.Context, flags ...string) error {
	return e.compare(ctx, io.Discard, []string{"-rules=4"}, []string{"--cases", "2000"}, flags...)
}
