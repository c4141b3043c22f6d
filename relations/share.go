package relations

import (
	"errors"
	"fmt"
	"strings"
)

// CheckShareable returns nil if the holders of a tag may share one entry in the
// document, and otherwise an error with all the reasons against it. No command
// decides on a holder that joins a held entry. So the presence of the entry must
// imply what the rules would say:
//
//   - The tag ignores itself. Otherwise it would count the holders that join.
//   - Every tag that it respects respects it back. So none of them is granted while
//     the entry is present, and a holder that joins later meets none.
//   - All relations from and to the tag have Allow 0. Any other Allow counts
//     entries, and there is one entry in place of several.
//
// In rules without an Allow, a tag that breaks one of them can't be shared safely.
func (r Rules) CheckShareable(tag string) error {
	var reasons []string
	why := func(format string, args ...any) { reasons = append(reasons, fmt.Sprintf(format, args...)) }
	if r[tag][tag].Kind != None {
		why("it respects itself (%v)", r[tag][tag])
	}
	for _, other := range r.Tags() {
		if other == tag {
			continue
		}
		from, to := r[tag][other], r[other][tag]
		if from.Kind != None && to.Kind == None {
			why("it respects %q (%v), which ignores it", other, from)
		}
		if from.Allow > 0 {
			why("its relation to %q counts entries (%v)", other, from)
		}
		if to.Allow > 0 {
			why("the relation of %q to it counts entries (%v)", other, to)
		}
	}
	if reasons == nil {
		return nil
	}
	return errors.New(strings.Join(reasons, "; "))
}
