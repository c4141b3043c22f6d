package update

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	"github.com/doclock/doclock/locktest/internal/value"
)

// checkPath refuses a path that names no field.
func checkPath(path string) error {
	for name := range strings.SplitSeq(path, ".") {
		switch {
		case name == "":
			return value.Refuse(56, "The update path '%s' contains an empty field name, which is not allowed.", path)
		case name == "$":
			return value.Unsupported("the positional operator in %q; use an array filter", path)
		case strings.HasPrefix(name, "$[") && strings.HasSuffix(name, "]") && name != path:
		case strings.HasPrefix(name, "$"):
			return value.Refuse(value.DollarPrefixed, "The dollar ($) prefixed field '%s' in '%s' is not valid for storage.", name, path)
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
