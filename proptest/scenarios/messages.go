package scenarios

import (
	"reflect"
	"testing"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	storedImage  = "retried command answered with its stored image"
	cutOff       = "connection reset in the middle of a request"
	readsStored  = "a stored image, whole and without a clock, gives the same result as the projected one"
	survivesACut = "a command that was cut off is repeated, and done once"
)

// messages uses the two faults of messages that no random run can time: a stored
// image, which must belong to the command that it answers, and a reset in the
// middle of a request. Each round has four of both.
func messages(t testing.TB, n int, counts *tally.Tally) {
	st := newStage(t, counts)
	for range (n + 3) / 4 {
		st.scene().storedImages()
		st.scene().cuts()
	}
}

// storedImages answers an acquire, a confirm and a release with the whole
// document, as a server does if it finds a retried command in its history.
func (s *scene) storedImages() {
	var before, doc bson.M
	s.must(bson.Unmarshal(s.raw(), &before))
	s.answerNext(s.raw)
	reader, err := s.locks.TryAcquire(s.Context(), s.filter(), "read", doclock.Into(&doc))
	s.must(err)
	// Compared as values, because the fields of a bson.M have no order.
	s.check(readsStored, reflect.DeepEqual(doc, before), "the document as of the grant is %v, want %v", doc, before)

	s.answerNext(s.raw)
	ticket, err := s.locks.Enqueue(s.Context(), s.filter(), "write")
	s.must(err)
	s.check(readsStored, !ticket.Granted(), "a writer is granted beside a reader")

	held := s.raw()
	s.answerNext(func() bson.Raw { return held })
	err = reader.Release(s.Context())
	s.check(readsStored, err == nil, "release: %v", err)
	s.answerNext(s.raw)
	writer, err := ticket.Confirm(s.Context())
	s.must(err)
	err = writer.UpdateAndRelease(s.Context(), increment)
	s.check(readsStored, err == nil, "the lease of a stored image: %v", err)
	s.close()
}

// answerNext answers the next findAndModify with a whole document.
func (s *scene) answerNext(whole func() bson.Raw) {
	s.net.ArmRewrite(faultnet.Rewrite, "findAndModify", func(bson.Raw) any {
		return bson.D{{Key: "ok", Value: 1}, {Key: "value", Value: whole()}}
	})
	s.Fired(storedImage, 1)
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
