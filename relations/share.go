package relations

import "fmt"

// CheckShareable returns nil if the holders of a tag may share one entry in the
// document, and otherwise an error with a reason against it. No command decides on a
// holder that joins a held entry. So the tag must ignore itself; each tag that it
// respects must respect it back, so that none is granted beside the entry; and no
// relation from or to it may have an Allow, which counts entries.
func (r Rules) CheckShareable(tag string) error {
	for _, other := range r.Tags() {
		from, to := r[tag][other], r[other][tag]
		switch {
		case from.Kind != None && other == tag:
			return fmt.Errorf("it respects itself (%v)", from)
		case from.Kind != None && to.Kind == None:
			return fmt.Errorf("it respects %q (%v), which ignores it", other, from)
		case from.Allow > 0 || to.Allow > 0:
			return fmt.Errorf("entries count between it and %q (%v; back: %v)", other, from, to)
		}
	}
	return nil
}
