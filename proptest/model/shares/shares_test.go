package shares

import (
	"fmt"
	"math"
	"testing"

	"github.com/doclock/doclock/proptest/model/interleave"
)

func search(without Without, readers bool) interleave.Report {
	return interleave.Changes(fmt.Sprintf("readers %v", readers), newWorld(without, readers, 2), (*world).steps, (*world).check).Search(math.MaxInt, 3_000_000)
}

// With all clauses the whole world is searched, and no property is violated.
func TestRule21(t *testing.T) {
	t.Parallel()
	for _, readers := range []bool{false, true} {
		if r := search(Without{}, readers); r.Broken.Property != "" || !r.Complete {
			t.Error(r)
		} else {
			t.Log(r)
		}
	}
}

// Without a clause the search notices.
func TestRule21Clauses(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name     string
		without  Without
		property string
	}{
		{"window ends", Without{WindowEnds: true}, "turn"},
		{"release ends it", Without{ReleaseEndsIt: true}, "empty"},
		{"reader is alone", Without{ReaderIsAlone: true}, "fresh"},
		{"one at a time", Without{OneAtATime: true}, "told"},
		{"unknown first", Without{UnknownFirst: true}, "told"},
		{"last releases", Without{LastReleases: true}, "empty"},
		{"first releases all", Without{FirstReleasesAll: true}, "let"},
		{"others are told", Without{OthersAreTold: true}, "let"},
		{"ends alone", Without{EndsAlone: true}, "empty"},
		{"update decides", Without{UpdateDecides: true}, "told"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			r := search(c.without, c.without.ReaderIsAlone)
			if r.Broken.Property != c.property {
				t.Errorf("not %s: %v", c.property, r)
			}
			t.Log(r)
		})
	}
}
