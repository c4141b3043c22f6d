package lease

import (
	"context"
	"slices"

	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/oneline"
	"github.com/google/uuid"
)

// taken decides whether our lost attempt or another user of the token removed the
// entry, after a release or a delete that found nothing.
func (s *Hold) taken(ctx context.Context, command string, unsure error) error {
	img, err := s.read(ctx)
	g := s.last()
	_, there := keyed(img, g.Tag, g.Key)
	switch {
	case err != nil:
		return s.unknown(command, oneline.Join(unsure, err))
	case there:
		return s.lose(engine.Answer{Image: img})
	case command == "release" && s.noneTook(img):
		return nil
	default:
		return s.unknown(command, unsure)
	}
}

// keyed is the entry of a token in the image.
func keyed(img *engine.Image, tag string, key uuid.UUID) (engine.Entry, bool) {
	if img == nil {
		return engine.Entry{}, false
	}
	return img.Lock.Keyed(tag, key)
}

// noneTook says that no other user has taken the entry. While the lease is valid,
// a user who took it has it still, or has left a remainder with a later fencing
// token. That user leaves none if this lease had detached, and none in a
// document that was deleted.
func (s *Hold) noneTook(img *engine.Image) bool {
	s.mu.Lock()
	detached := s.key != uuid.Nil
	s.mu.Unlock()
	if detached || img == nil || img.Lock.Fence < s.grant.Fence || s.left() <= 0 {
		return false
	}
	return !slices.ContainsFunc(img.Lock.Entries, func(e engine.Entry) bool {
		return e.Tag == s.grant.Tag && e.Fence > s.grant.Fence && !e.Until.IsZero()
	})
}
