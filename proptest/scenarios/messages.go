package scenarios

import (
	"testing"

	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/proptest/tally"
)

const (
	cutOff       = "connection reset in the middle of a request"
	survivesACut = "a command that was cut off is repeated, and done once"
)

// messages uses the fault that no random run can time: a reset in the middle of
// a request. Each round has four of them.
func messages(t testing.TB, n int, counts *tally.Tally) {
	st := newStage(t, counts)
	for range (n + 3) / 4 {
		st.scene().cuts()
	}
}

func (s *scene) cuts() {
	cut := func() {
		s.net.Arm(faultnet.Cut, "findAndModify")
		s.Fired(cutOff, 1)
	}
	cut()
	lease := s.holds("write")
	for _, name := range []string{"Renew", "Update", "Release"} {
		cut()
		err := calls[name](s.Context(), lease)
		s.check(survivesACut, err == nil, "%s: %v", name, err)
	}
	doc, _ := s.stored(s.id)
	s.check(survivesACut, doc.Count == 1 && len(doc.of("swept")) == 0, "left %v", doc)
	s.close()
}
