package doclock_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
)

func TestObserversThatAreNil(t *testing.T) {
	for name, o := range map[string]doclock.Option{"OnEvent": doclock.OnEvent(nil), "LogTo": doclock.LogTo(nil)} {
		if err := o.ApplyLocker(&engine.Config{}); !errors.Is(err, doclock.ErrInvalidArgument) {
			t.Errorf("%s(nil): %v", name, err)
		}
	}
}

var kinds = []doclock.EventKind{
	doclock.EventWaiting, doclock.EventSkipped, doclock.EventGranted, doclock.EventNotGranted, doclock.EventRenewed,
	doclock.EventRenewalFailed, doclock.EventLost, doclock.EventReleased, doclock.EventOutcomeUnknown, doclock.EventCleanUpFailed,
}

// logged is what a logger writes of an event, as JSON.
func logged(t *testing.T, least slog.Level, e doclock.Event) map[string]any {
	t.Helper()
	var out bytes.Buffer
	logger := slog.New(slog.NewJSONHandler(&out, &slog.HandlerOptions{Level: least}))
	var cfg engine.Config
	if err := doclock.LogTo(logger).ApplyLocker(&cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Observers[0].(func(context.Context, doclock.Event))(t.Context(), e)
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
	levels := map[doclock.EventKind]string{
		doclock.EventLost: "WARN", doclock.EventOutcomeUnknown: "WARN", doclock.EventRenewalFailed: "WARN", doclock.EventCleanUpFailed: "WARN", doclock.EventSkipped: "WARN",
	}
	check := func(e doclock.Event, want string) {
		t.Helper()
		if got := logged(t, slog.LevelDebug, e); got["level"] != want || got["msg"] != "doclock: "+string(e.Kind) || e.How != "" && got["how"] != string(e.How) {
			t.Errorf("%+v is logged as %v, want %s", e, got, want)
		}
		if got := logged(t, slog.LevelInfo, e); (got != nil) != (want != "DEBUG") {
			t.Errorf("%+v, where the least level is INFO: %v", e, got)
		}
	}
	for _, kind := range kinds {
		want := cmp.Or(levels[kind], "DEBUG")
		check(doclock.Event{Kind: kind}, want)
		if kind == doclock.EventReleased {
			want = "WARN"
		}
		check(doclock.Event{Kind: kind, Err: doclock.ErrOutcomeUnknown}, want)
	}
	check(doclock.Event{Kind: doclock.EventWaiting, How: doclock.HowStill}, "INFO")
	check(doclock.Event{Kind: doclock.EventNotGranted, How: doclock.HowGaveUp}, "INFO")
	check(doclock.Event{Kind: doclock.EventNotGranted, How: doclock.HowRefused}, "DEBUG")
	check(doclock.Event{Kind: doclock.EventReleased, How: doclock.HowDetached}, "DEBUG")
	check(doclock.Event{Kind: doclock.EventReleased, How: doclock.HowDetached, Err: doclock.ErrOutcomeUnknown}, "WARN")
}

// Empty fields are left out, and the record has the event's time.
func TestAttributesOfEvents(t *testing.T) {
	id := uuid.MustParse("f0ef0700-0000-4000-8000-000000000001")
	full := doclock.Event{
		Kind: doclock.EventNotGranted, How: doclock.HowGaveUp, Time: time.Date(2030, 1, 2, 3, 4, 5, 0, time.UTC), Collection: "shop.orders", DocumentID: bson.RawValue{Type: bson.TypeInt32, Value: []byte{1, 0, 0, 0}},
		Tag: "read", Owner: "bob", LeaseID: id, Fence: 3, Waited: time.Second, Held: time.Minute, Commands: 6, Err: errors.New("why"), Dropped: 7,
		Holders: []doclock.Holder{{Tag: "write", Owner: "ann"}, {Tag: "write", Owner: "cid"}},
	}
	want := map[string]any{
		"time": "2030-01-02T03:04:05Z", "level": "INFO", "msg": "doclock: not granted", "how": "gave up",
		"collection": "shop.orders", "document": "1", "tag": "read", "owner": "bob", "lease": id.String(), "fence": 3., "waited": 1e9, "held": 6e10,
		"commands": 6., "holders": 2., "behind": `"write" of "ann"`, "error": "why", "dropped": 7.,
	}
	if got := logged(t, slog.LevelInfo, full); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	lost := doclock.Event{Kind: doclock.EventLost, Err: &doclock.LostError{Reason: doclock.LossNotRenewed}}
	if got := logged(t, slog.LevelWarn, lost); got["reason"] != "not renewed" {
		t.Errorf("a loss is logged as %v", got)
	}
	if got := logged(t, slog.LevelInfo, doclock.Event{Kind: doclock.EventNotGranted, How: doclock.HowGaveUp}); len(got) != 3 { // without a time
		t.Errorf("an empty event is logged as %v", got)
	}
	value := doclock.Event{Kind: doclock.EventLost, Time: full.Time, Tag: "read"}.LogValue()
	if got, want := value.String(), "[kind=lost time=2030-01-02 03:04:05 +0000 UTC tag=read]"; got != want {
		t.Errorf("LogValue = %s, want %s", got, want)
	}
}
