package doclock

import (
	"context"
	"fmt"
	"log/slog"
	"slices"

	"github.com/doclock/doclock/internal/engine"
)

// OnEvent makes the Locker call f for each [Event]. Given several times, all
// functions are called, in the order of the options.
//
// The Locker calls f in a goroutine of its own, for one event at a time, in the
// order in which the events happened. That goroutine exists only while events wait
// for their delivery; nothing has to be closed, and the events of Close still come
// after it. A slow f delays nobody: up to 1,024 events wait for it. If there are
// more, an event is dropped, and counted in the next one's Dropped: a renewal if
// there is one, and an [EventLost] or an [EventOutcomeUnknown] only if nothing else
// waits. A panic ends that call only, and is logged with its stack, as net/http
// does.
//
// The context has the values of the caller's context, such as a trace, without its
// end and without the driver's session. All events of a ticket have those of
// Enqueue's. Renewals have the values of the acquire's context, which the lease
// keeps until it has ended. So have losses, unless the lease's release found them.
// Clean-ups have none.
//
// Without an observer no event is made, and nothing is counted.
func OnEvent(f func(context.Context, Event)) Option {
	return engine.Option(func(c *engine.Config) error {
		if f == nil {
			return fmt.Errorf("%w: OnEvent got a nil function; leave the option out", ErrInvalidArgument)
		}
		c.Observers = append(slices.Clone(c.Observers), f)
		return nil
	})
}

// LogTo logs each [Event] of the Locker, as [OnEvent] delivers it. The record has
// the event's time and the attributes of [Event.LogValue]. The levels are
//
//   - Warn: [EventLost], [EventOutcomeUnknown], [EventRenewalFailed],
//     [EventCleanUpFailed], [EventSkipped], and an [EventReleased] or [EventDetached]
//     with an Err;
//   - Info: [EventGaveUp], [EventStillWaiting];
//   - Debug: all others.
func LogTo(logger *slog.Logger) Option {
	if logger == nil {
		return engine.Option(func(*engine.Config) error {
			return fmt.Errorf("%w: LogTo got a nil logger; give one, as slog.Default()", ErrInvalidArgument)
		})
	}
	return OnEvent(func(ctx context.Context, e Event) {
		level := e.level()
		if !logger.Enabled(ctx, level) {
			return
		}
		record := slog.NewRecord(e.Time, level, "doclock: "+string(e.Kind), 0)
		record.AddAttrs(e.attributes()...)
		_ = logger.Handler().Handle(ctx, record) // as a Logger does
	})
}

func (e Event) level() slog.Level {
	switch {
	case e.Kind == EventLost, e.Kind == EventOutcomeUnknown, e.Kind == EventRenewalFailed, e.Kind == EventCleanUpFailed, e.Kind == EventSkipped:
		return slog.LevelWarn
	case e.Err != nil && (e.Kind == EventReleased || e.Kind == EventDetached):
		return slog.LevelWarn
	case e.Kind == EventGaveUp, e.Kind == EventStillWaiting:
		return slog.LevelInfo
	default:
		return slog.LevelDebug
	}
}
