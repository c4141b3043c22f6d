package update

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// checkPath refuses a path that names no field.
func checkPath(path string) error {
	for name := range strings.SplitSeq(path, ".") {
		switch {
		case path == "":
			return value.Refuse(56, "An empty update path is not valid.")
		case name == "":
			return value.Refuse(56, "The update path '%s' contains an empty field name, which is not allowed.", path)
		case strings.Contains(name, "\x00"):
			return value.Refuse(value.BadValue, "The path %q contains an embedded null byte", path)
		case name == "$":
			return value.Unsupported("the positional operator in %q; use an array filter", path)
		}
	}
	if strings.HasPrefix(path, "$[") {
		return value.Refuse(value.BadValue, "Cannot have array filter identifier (i.e. '$[<id>]') element in the first position in path '%s'", path)
	}
	return nil
}

// plan has the paths of an update, as they are read one after the other, and the array
// filters.
type plan struct {
	root    *node
	filters map[string]bson.RawValue
	used    map[string]bool
}

// node is a part of paths, by the parts that come next: the identifiers of an array's
// elements, or names. A path ends where none comes.
type node struct {
	next  map[string]*node
	array bool
}

// place adds a path, unless it leads to another one, or takes for a document what that
// takes for an array.
func (p plan) place(path string) error {
	at, parts := p.root, strings.Split(path, ".")
	for i, part := range parts {
		identifier, array := strings.CutPrefix(part, "$[")
		if array = array && strings.HasSuffix(part, "]"); array {
			if part = strings.TrimSuffix(identifier, "]"); part != "" && value.IsMissing(p.filters[part]) {
				return value.Refuse(value.BadValue, "No array filter found for identifier '%s' in path '%s'", part, path)
			}
			p.used[part] = true
		}
		last := i == len(parts)-1
		inner := at.next[part]
		nextIsArray := !last && strings.HasPrefix(parts[i+1], "$[") && strings.HasSuffix(parts[i+1], "]")
		switch {
		case inner == nil:
			if at.next == nil {
				at.next = map[string]*node{}
			}
			inner = &node{array: nextIsArray}
			at.next[part] = inner
		case last || len(inner.next) == 0 || inner.array != nextIsArray:
			return value.Refuse(value.Conflicting, "Updating the path '%s' would create a conflict at '%s'", path, strings.Join(parts[:i+1], "."))
		}
		at = inner
	}
	return nil
}

// allUsed refuses an array filter that no path has used.
func (p plan) allUsed() error {
	for name := range p.filters {
		if !p.used[name] {
			return value.Refuse(value.FailedToParse, "The array filter for identifier '%s' was not used in the update", name)
		}
	}
	return nil
}

// comparePaths is the order in which changes are applied, and new fields are added:
// by their names, or by their numbers.
func comparePaths(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		n, err := strconv.Atoi(x)
		m, err2 := strconv.Atoi(y)
		if err == nil && err2 == nil {
			return cmp.Compare(n, m)
		}
		return cmp.Compare(x, y)
	})
}
