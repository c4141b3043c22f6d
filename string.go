package doclock

import (
	"fmt"
	"log/slog"
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
		left = err.Error()
	}
	return fmt.Sprintf("lease %q on document %s, fence %d, %s", l.Tag(), bsonvalue.Readable(l.DocumentID()), l.Fence(), left)
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
		attrs = append(attrs, slog.String("over", err.Error()))
	}
	return slog.GroupValue(attrs...)
}
