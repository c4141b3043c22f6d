package doclock_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/observe"
	"github.com/doclock/doclock/internal/option"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func apply(o doclock.Option, c *engine.Config) error { return o.(option.Locker).ApplyLocker(c) }

func TestObserversThatAreNil(t *testing.T) {
	for name, o := range map[string]doclock.Option{"OnEvent": doclock.OnEvent(nil), "LogTo": doclock.LogTo(nil)} {
		if err := apply(o, &engine.Config{}); !errors.Is(err, doclock.ErrInvalidArgument) {
			t.Errorf("%s(nil): %v", name, err)
		}
	}
}

// kinds are the exported kinds, each with that of the package that sends it.
var kinds = map[doclock.EventKind]observe.Kind{
	doclock.EventWaiting: observe.Waiting, doclock.EventStillWaiting: observe.StillWaiting, doclock.EventSkipped: observe.Skipped, doclock.EventGranted: observe.Granted, doclock.EventRefused: observe.Refused, doclock.EventGaveUp: observe.GaveUp,
	doclock.EventRenewed: observe.Renewed, doclock.EventRenewalFailed: observe.RenewalFailed, doclock.EventLost: observe.Lost, doclock.EventReleased: observe.Released,
	doclock.EventHandedOver: observe.HandedOver, doclock.EventDetached: observe.Detached, doclock.EventOutcomeUnknown: observe.OutcomeUnknown, doclock.EventCleanUpFailed: observe.CleanUpFailed,
}

func TestKindsOfEvents(t *testing.T) {
	for exported, sent := range kinds {
		if string(exported) != string(sent) {
			t.Errorf("%q is sent as %q", exported, sent)
		}
	}
}

// observed are the functions of an option's observer.
func observed(t *testing.T, options ...doclock.Option) (all []observe.Func) {
	t.Helper()
	var cfg engine.Config
	for _, o := range options {
		if err := apply(o, &cfg); err != nil {
			t.Fatal(err)
		}
	}
	return cfg.Observers
}

// Each observer gets the whole event. The holders are those of the conflict, or of
// the error.
func TestOnEvent(t *testing.T) {
	holders := []doclock.Holder{{Tag: "write", Owner: "ann"}}
	conflict := fmt.Errorf("wrapped: %w", &doclock.ConflictError{Tag: "read", Holders: holders})
	var got []doclock.Event
	hear := func(_ context.Context, e doclock.Event) { got = append(got, e) }
	e := observe.Event{
		Kind: observe.Waiting, Time: time.Unix(1, 2), Collection: "shop.orders", DocumentID: bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}},
		Tag: "read", Owner: "bob", LeaseID: uuid.New(), Fence: 3, Waited: 4, Held: 5, Commands: 6, Conflict: conflict, Dropped: 7,
	}
	for _, f := range observed(t, doclock.OnEvent(hear), doclock.OnEvent(hear)) {
		f(t.Context(), e)
	}
	if len(got) != 2 {
		t.Fatalf("%d observers were called", len(got))
	}
	for _, of := range got {
		if of.Kind != doclock.EventWaiting || !of.Time.Equal(e.Time) || of.Collection != e.Collection || !of.DocumentID.Equal(e.DocumentID) || of.Tag != "read" || of.Owner != "bob" ||
			of.LeaseID != e.LeaseID || of.Fence != 3 || of.Waited != 4 || of.Held != 5 || of.Commands != 6 || of.Err != nil || of.Dropped != 7 || !slices.Equal(of.Holders, holders) {
			t.Errorf("got %+v", of)
		}
	}
	e.Conflict, e.Err = nil, conflict
	observed(t, doclock.OnEvent(hear))[0](t.Context(), e)
	if of := got[2]; !slices.Equal(of.Holders, holders) || of.Err != conflict {
		t.Errorf("with an error: %+v", of)
	}
}

// logged is what a logger writes of an event, as JSON.
func logged(t *testing.T, least slog.Level, e observe.Event) map[string]any {
	t.Helper()
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: least}))
	observed(t, doclock.LogTo(logger))[0](t.Context(), e)
	if out.Len() == 0 {
		return nil
	}
	var line map[string]any
	if err := json.Unmarshal(out.Bytes(), &line); err != nil {
		t.Fatalf("%q: %v", out.String(), err)
	}
	return line
}

func TestLevelsOfLogTo(t *testing.T) {
	levels := map[observe.Kind]string{
		observe.Lost: "WARN", observe.OutcomeUnknown: "WARN", observe.RenewalFailed: "WARN", observe.CleanUpFailed: "WARN", observe.Skipped: "WARN", observe.GaveUp: "INFO", observe.StillWaiting: "INFO",
	}
	failed := map[observe.Kind]string{observe.Released: "WARN", observe.Detached: "WARN"}
	for _, kind := range kinds {
		want := levels[kind]
		if want == "" {
			want = "DEBUG"
		}
		if got := logged(t, slog.LevelDebug, observe.Event{Kind: kind}); got["level"] != want || got["msg"] != "doclock: "+string(kind) {
			t.Errorf("%q is logged as %v, want %s", kind, got, want)
		}
		if got := logged(t, slog.LevelInfo, observe.Event{Kind: kind}); (got != nil) != (want != "DEBUG") {
			t.Errorf("%q, where the least level is INFO: %v", kind, got)
		}
		if f := failed[kind]; f != "" {
			want = f
		}
		if got := logged(t, slog.LevelDebug, observe.Event{Kind: kind, Err: doclock.ErrOutcomeUnknown}); got["level"] != want {
			t.Errorf("%q with an error is logged as %v, want %s", kind, got["level"], want)
		}
	}
}

// Empty fields are left out, and the record has the event's time.
func TestAttributesOfEvents(t *testing.T) {
	id := uuid.MustParse("f0ef0700-0000-4000-8000-000000000001")
	full := observe.Event{
		Kind: observe.GaveUp, Time: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Collection: "shop.orders", DocumentID: bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}},
		Tag: "read", Owner: "bob", LeaseID: id, Fence: 3, Waited: time.Second, Held: time.Minute, Commands: 6, Err: errors.New("why"), Dropped: 7,
		Conflict: &doclock.ConflictError{Holders: []doclock.Holder{{Tag: "write", Owner: "ann"}, {Tag: "write", Owner: "cid"}}},
	}
	want := map[string]any{
		"time": "2030-01-02T03:04:05Z", "level": "INFO", "msg": "doclock: gave up",
		"collection": "shop.orders", "document": "1", "tag": "read", "owner": "bob", "lease": id.String(), "fence": 3., "waited": 1e9, "held": 6e10,
		"commands": 6., "holders": 2., "behind": `"write" of "ann"`, "error": "why", "dropped": 7.,
	}
	if got := logged(t, slog.LevelInfo, full); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	lost := observe.Event{Kind: observe.Lost, Err: &doclock.LostError{Reason: doclock.LossNotRenewed}}
	if got := logged(t, slog.LevelWarn, lost); got["reason"] != "not renewed" {
		t.Errorf("a loss is logged as %v", got)
	}
	if got := logged(t, slog.LevelInfo, observe.Event{Kind: observe.GaveUp}); len(got) != 2 { // without a time
		t.Errorf("an empty event is logged as %v", got)
	}
	value := doclock.Event{Kind: doclock.EventLost, Time: full.Time, Tag: "read"}.LogValue()
	if got, want := value.String(), "[kind=lost time=2030-01-02 03:04:05 +0000 UTC tag=read]"; got != want {
		t.Errorf("LogValue = %s, want %s", got, want)
	}
}
