package storm

import (
	"context"
	"log/slog"
	"time"

	"github.com/doclock/doclock"
)

// record is what a log has of an event.
type record struct {
	level slog.Level
	text  string
	time  time.Time
}

// logbook is a program's log. It has the same events as the observers, in the same
// goroutine.
type logbook struct{ *program }

var _ slog.Handler = logbook{}

// Enabled implements slog.Handler.
func (l logbook) Enabled(context.Context, slog.Level) bool { return true }

// Handle implements slog.Handler.
func (l logbook) Handle(_ context.Context, r slog.Record) error {
	l.logged = append(l.logged, record{r.Level, r.Message, r.Time})
	return nil
}

// WithAttrs implements slog.Handler.
func (l logbook) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup implements slog.Handler.
func (l logbook) WithGroup(string) slog.Handler { return l }

// log compares a program's log with its events, by the doc comment of doclock.LogTo.
func (l *ledger) log(p *program) {
	if !l.check(Promised, len(p.logged) == len(p.events), "program %d has %d events, and %d in its log", p.number, len(p.events), len(p.logged)) {
		return
	}
	for i, e := range p.events {
		want := slog.LevelDebug
		switch e.Kind {
		case doclock.EventLost, doclock.EventOutcomeUnknown, doclock.EventRenewalFailed, doclock.EventCleanUpFailed:
			want = slog.LevelWarn
		case doclock.EventReleased, doclock.EventDetached:
			if e.Err != nil {
				want = slog.LevelWarn
			}
		case doclock.EventGaveUp:
			want = slog.LevelInfo
		}
		r := p.logged[i]
		l.check(Promised, r.level == want && r.time.Equal(e.Time) && r.text == "doclock: "+string(e.Kind), "%v is in the log as %v", l.show(e), r)
	}
}
