package relations

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// ErrInvalidRules: the rules have faults. Validate returns it, and so does the
// reading of Rules from JSON.
var ErrInvalidRules = errors.New("relations: invalid rules")

// MaxAllow is the greatest Allow of a valid relation. All entries are in the
// locked document: many more of them would not fit.
const MaxAllow = 10_000

// maxTagLength is the greatest length of a tag's name, in bytes.
const maxTagLength = 64

// Validate returns nil or an [ErrInvalidRules]. The error names all faults of the
// rules at once, in the order of the tags, each with its tag, its relation, and a
// correction. The faults are:
//
//   - rules without tags;
//   - a tag whose name isn't 1 to 64 of the characters A-Z a-z 0-9 _ -;
//   - a relation to a tag that the rules do not have;
//   - a Kind that is none of the three;
//   - an Allow that is negative, or greater than MaxAllow;
//   - an Allow with Kind None, where it has no effect.
//
// All other rules are valid, and free of deadlocks. [Rules.Starvations] tells
// whether they are fair too.
func (r Rules) Validate() error {
	return invalid(r.faults())
}

// invalid makes one error of all faults, and nil if there are none.
func invalid(faults []string) error {
	if len(faults) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s", ErrInvalidRules, strings.Join(faults, "; "))
}

func (r Rules) faults() []string {
	if len(r) == 0 {
		return []string{`the rules have no tags (the simplest rules are Exclusive, with one)`}
	}
	var faults []string
	for _, x := range r.Tags() {
		if !validTag(x) {
			faults = append(faults, fmt.Sprintf(
				"tag %q: not a valid name (1 to %d of the characters A-Z a-z 0-9 _ -)", x, maxTagLength))
		}
		for _, y := range slices.Sorted(maps.Keys(r[x])) {
			for _, fault := range r.relationFaults(x, y) {
				faults = append(faults, fmt.Sprintf("tag %q: %v to %q%s", x, r[x][y].Kind, y, fault))
			}
		}
	}
	return faults
}

// relationFaults returns the faults of x's relation to y, each in the form that
// follows the words that name the relation.
func (r Rules) relationFaults(x, y string) []string {
	var faults []string
	rel := r[x][y]
	if _, known := r[y]; !known {
		faults = append(faults, fmt.Sprintf(
			", which is not a tag of the rules (tags: %s)", tagList(r.Tags())))
	}
	switch {
	case rel.Kind > Assertive:
		faults = append(faults, ": unknown kind (kinds: None, Cooperative, Assertive)")
	case rel.Kind == None && rel.Allow != 0:
		faults = append(faults, fmt.Sprintf(
			" with allow %d, which has no effect (use Cooperative or Assertive, or leave Allow out)", rel.Allow))
		return faults
	}
	switch {
	case rel.Allow < 0 && x == y:
		faults = append(faults, fmt.Sprintf(
			" with allow %d, which is negative (0 or more; n at a time is allow n-1, and n is at least 1)", rel.Allow))
	case rel.Allow < 0:
		faults = append(faults, fmt.Sprintf(" with allow %d, which is negative (0 or more)", rel.Allow))
	case rel.Allow > MaxAllow:
		faults = append(faults, fmt.Sprintf(" with allow %d, which is too many (at most %d)", rel.Allow, MaxAllow))
	}
	return faults
}

func validTag(tag string) bool {
	if len(tag) == 0 || len(tag) > maxTagLength {
		return false
	}
	for _, c := range []byte(tag) {
		switch {
		case 'A' <= c && c <= 'Z', 'a' <= c && c <= 'z', '0' <= c && c <= '9', c == '_', c == '-':
		default:
			return false
		}
	}
	return true
}

// tagList formats tags for an error message.
func tagList(tags []string) string {
	names := make([]string, len(tags))
	for i, tag := range tags {
		names[i] = printable(tag)
	}
	return strings.Join(names, ", ")
}

// printable returns a valid tag unchanged, and any other in quotes.
func printable(tag string) string {
	if validTag(tag) {
		return tag
	}
	return strconv.QuoteToASCII(tag)
}
