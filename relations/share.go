package relations

import (
	"errors"
	"fmt"
	"strings"
)

// CheckShareable returns nil if those who hold a tag together may stand in the
// document as one entry, and otherwise an error with all the reasons why not.
// Whoever joins a held entry is judged by nobody: what the table would say
// must follow from the entry's being there.
//
//   - The tag ignores itself: else it would count who joins.
//   - Everyone it respects respects it back. So none of them is let in as long
//     as the entry is there, and who joins later meets nobody.
//   - All relations from and to the tag have Allow 0. Any other counts entries,
//     and there is one where there should be several.
//
// Where no relation counts, these are necessary too.
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
