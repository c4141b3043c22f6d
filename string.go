package doclock

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/doclock/doclock/internal/bsonvalue"
)

// String has the lease's document, tag and fencing token, and the time that is left
// or why the lease is over.
func (l *Lease) String() string {
	if l == nil || !l.handle().Granted() {
		return "no lease"
	}
	left := fmt.Sprint(l.Remaining().Round(time.Millisecond), " left")
	if err := l.Err(); err != nil {
		left = over(err)
	}
	return fmt.Sprintf("lease %q on document %s, fence %d, %s", l.Tag(), bsonvalue.Readable(l.DocumentID()), l.Fence(), left)
}

// over is why a lease is over, for those who know which lease.
func over(err error) string {
	var lost *LostError
	if errors.As(err, &lost) {
		return "lost: " + string(lost.Reason)
	}
	for _, known := range []error{ErrReleased, ErrOutcomeUnknown} {
		if errors.Is(err, known) {
			return strings.TrimPrefix(strings.TrimPrefix(known.Error(), "doclock: "), "lock ")
		}
	}
	return err.Error()
}

// LogValue implements [slog.LogValuer] with the same.
func (l *Lease) LogValue() slog.Value {
	if l == nil || !l.handle().Granted() {
		return slog.StringValue("no lease")
	}
	attrs := []slog.Attr{
		slog.String("document", bsonvalue.Readable(l.DocumentID())),
		slog.String("tag", l.Tag()),
		slog.Int64("fence", l.Fence()),
		slog.Duration("left", l.Remaining()),
	}
	if err := l.Err(); err != nil {
		attrs = append(attrs, slog.String("over", over(err)))
	}
	return slog.GroupValue(attrs...)
}
