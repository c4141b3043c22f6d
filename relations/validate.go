package relations

import (
	"errors"
	"fmt"
	"maps"
	"regexp"
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

var tagName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,64}$`)

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
	if faults := r.faults(); len(faults) > 0 {
		return fmt.Errorf("%w: %s", ErrInvalidRules, strings.Join(faults, "; "))
	}
	return nil
}

func (r Rules) faults() []string {
	if len(r) == 0 {
		return []string{`the rules have no tags (the simplest rules are Exclusive, with one)`}
	}
	var faults []string
	for _, x := range r.Tags() {
		if !tagName.MatchString(x) {
			faults = append(faults, fmt.Sprintf("tag %q: not a valid name (1 to 64 of the characters A-Z a-z 0-9 _ -)", x))
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
func (r Rules) relationFaults(x, y string) (faults []string) {
	rel, least := r[x][y], "0 or more"
	if x == y {
		least = "0 or more; n at a time is allow n-1, and n is at least 1"
	}
	if _, known := r[y]; !known {
		faults = append(faults, fmt.Sprintf(", which is not a tag of the rules (tags: %s)", tagList(r.Tags())))
	}
	if rel.Kind > Assertive {
		faults = append(faults, ": unknown kind (kinds: None, Cooperative, Assertive)")
	}
	switch {
	case rel.Kind == None && rel.Allow != 0:
		faults = append(faults, fmt.Sprintf(" with allow %d, which has no effect (use Cooperative or Assertive, or leave Allow out)", rel.Allow))
	case rel.Allow < 0:
		faults = append(faults, fmt.Sprintf(" with allow %d, which is negative (%s)", rel.Allow, least))
	case rel.Allow > MaxAllow:
		faults = append(faults, fmt.Sprintf(" with allow %d, which is too many (at most %d)", rel.Allow, MaxAllow))
	}
	return faults
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
	if tagName.MatchString(tag) {
		return tag
	}
	return strconv.QuoteToASCII(tag)
}
