package lease

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/bsonvalue"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// This file has what a holder can ask without a command.

// Give is what a call returns that acquires: a nil handle is a nil interface.
func Give(h *Handle, err error) (doclock.Lease, error) {
	if h == nil {
		return nil, err
	}
	return h, err
}

// ID implements doclock.Lease.
func (h *Handle) ID() uuid.UUID { return h.grant().ID }

// Tag implements doclock.Lease.
func (h *Handle) Tag() string { return h.grant().Tag }

// Fence implements doclock.Lease.
func (h *Handle) Fence() int64 { return h.grant().Fence }

// DocumentID implements doclock.Lease.
func (h *Handle) DocumentID() bson.RawValue {
	if h.hold == nil {
		return bson.RawValue{}
	}
	return h.hold.grant.Pin.ID()
}

// Pin names the document in filters.
func (h *Handle) Pin() engine.Pin { return h.grant().Pin }

func (h *Handle) grant() *engine.Grant { return &h.hold.grant }

// Guard implements doclock.Lease.
func (h *Handle) Guard() bson.D {
	if !h.isIn() {
		return bson.D{{Key: "_id", Value: bson.D{{Key: "$in", Value: bson.A{}}}}}
	}
	return h.hold.engine.Guard(h.hold.grant)
}

// Remaining implements doclock.Lease.
func (h *Handle) Remaining() time.Duration {
	if h.Err() != nil {
		return 0
	}
	return max(0, h.hold.left())
}

// Err implements doclock.Lease.
func (h *Handle) Err() error {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	_ = h.hold.check()
	if h.over == nil && h.hold.phase == suspended {
		return fmt.Errorf("%w: %v: a downgrade is under way", doclock.ErrOutcomeUnknown, h.hold)
	}
	return h.over
}

// Done implements doclock.Lease.
func (h *Handle) Done() <-chan struct{} {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	_ = h.hold.check()
	switch {
	case h.done != nil:
	case h.over != nil:
		h.done = closed
	default:
		h.done = make(chan struct{})
	}
	return h.done
}

var closed = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// String implements doclock.Lease.
func (h *Handle) String() string {
	left := fmt.Sprint(h.Remaining().Round(time.Millisecond), " left")
	if err := h.Err(); err != nil {
		left = endText(err)
	}
	return fmt.Sprintf("lease %q on document %s, fence %d, %s", h.Tag(), bsonvalue.Readable(h.DocumentID()), h.Fence(), left)
}

// LogValue implements [slog.LogValuer] with the same.
func (h *Handle) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("document", bsonvalue.Readable(h.DocumentID())),
		slog.String("tag", h.Tag()),
		slog.Int64("fence", h.Fence()),
		slog.Duration("left", h.Remaining()),
	}
	if err := h.Err(); err != nil {
		attrs = append(attrs, slog.String("over", endText(err)))
	}
	return slog.GroupValue(attrs...)
}

// endText is why a lease is over, for those who know which lease.
func endText(err error) string {
	var lost *doclock.LostError
	if errors.As(err, &lost) {
		return "lost: " + string(lost.Reason)
	}
	for _, known := range []error{doclock.ErrReleased, doclock.ErrOutcomeUnknown} {
		if errors.Is(err, known) {
			return strings.TrimPrefix(strings.TrimPrefix(known.Error(), "doclock: "), "lock ")
		}
	}
	return err.Error()
}

// Unused says of a lease that no caller has got that nobody used its lock: its
// release leaves no remainder. It comes before the release. The lease may be kept
// alive meanwhile. An entry that others share leaves none anyway.
func (h *Handle) Unused() {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	h.unused, h.hold.unused = true, true
}

// isIn says that the holder is in. It is leaving from the begin of its part's release
// or detach until the verdict, and left after that, or after a downgrade. A release
// or detach that was refused, or not sent, takes it back in.
func (h *Handle) isIn() bool {
	h.hold.mu.Lock()
	defer h.hold.mu.Unlock()
	return h.isInLocked()
}

func (h *Handle) isInLocked() bool {
	return h.released == nil && h.hold.phase != detached && h.hold.phase != replaced
}
