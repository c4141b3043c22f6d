package lease

import (
	"bytes"
	"context"
	"fmt"
	"log"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/doclock/doclock"
)

// told collects the events that a function is called with. In a bubble of
// testing/synctest nothing is delivered at the same time as a test looks.
type told []doclock.Event

func (t *told) hear(_ context.Context, e doclock.Event) { *t = append(*t, e) }

func (t told) tags() (tags []string) {
	for _, e := range t {
		tags = append(tags, e.Tag)
	}
	return tags
}

func numbered(kind doclock.EventKind, n int) doclock.Event {
	return doclock.Event{Kind: kind, Tag: fmt.Sprint(n)}
}

func wantTags(t *testing.T, who string, got told, want ...string) {
	t.Helper()
	if tags := got.tags(); !slices.Equal(tags, want) {
		t.Errorf("%s was told %v, want %v", who, tags, want)
	}
}

// All functions get all events, each event before the next, in order. The goroutine
// ends with the last: else the bubble would not.
func TestEventsComeInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var calls []string
		hear := func(who string) any {
			return func(_ context.Context, e doclock.Event) { calls = append(calls, who+e.Tag+e.Collection) }
		}
		o := NewObserver("!", []any{hear("a"), hear("b")})
		for range 2 { // again after it has come to rest
			calls = nil
			for n := range 3 {
				o.Emit(t.Context(), numbered(doclock.EventGranted, n))
			}
			synctest.Wait()
			if want := []string{"a0!", "b0!", "a1!", "b1!", "a2!", "b2!"}; !slices.Equal(calls, want) {
				t.Errorf("calls %v, want %v", calls, want)
			}
			if o.running || o.queue != nil {
				t.Error("it has not come to rest")
			}
		}
	})
}

// Emit never waits for a function that is stuck, and counts what it drops:
// renewals first, and losses last.
func TestEventsOfASlowObserver(t *testing.T) {
	for _, c := range []struct {
		name    string
		waiting func(n int) doclock.EventKind // of the events that wait
		last    doclock.EventKind             // of one more
		want    string                        // the first and the last of those that are delivered
	}{
		{"the oldest renewal makes room", func(n int) doclock.EventKind {
			if n == 7 || n == 8 {
				return doclock.EventRenewed
			}
			return doclock.EventGranted
		}, doclock.EventReleased, "0-1024 without 7"},
		{"a renewal makes no room", func(int) doclock.EventKind { return doclock.EventGranted }, doclock.EventRenewed, "0-1023 without nothing"},
		{"the oldest makes room", func(int) doclock.EventKind { return doclock.EventGranted }, doclock.EventReleased, "0-1024 without 0"},
		{"a loss stays", func(n int) doclock.EventKind {
			if n < 3 {
				return []doclock.EventKind{doclock.EventLost, doclock.EventOutcomeUnknown, doclock.EventLost}[n]
			}
			return doclock.EventGranted
		}, doclock.EventLost, "0-1024 without 3"},
		{"the oldest loss makes room for a loss", func(int) doclock.EventKind { return doclock.EventLost }, doclock.EventLost, "0-1024 without 0"},
		{"a grant makes no room for a refusal", func(int) doclock.EventKind { return doclock.EventGranted }, doclock.EventNotGranted, "0-1023 without nothing"},
		{"a grant and an end stay", func(n int) doclock.EventKind {
			if n < 3 {
				return []doclock.EventKind{doclock.EventGranted, doclock.EventReleased, doclock.EventGranted}[n]
			}
			return doclock.EventNotGranted
		}, doclock.EventReleased, "0-1024 without 3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				stuck := make(chan struct{})
				var all told
				o := NewObserver("", []any{func(ctx context.Context, e doclock.Event) {
					<-stuck
					all.hear(ctx, e)
				}})
				o.Emit(t.Context(), numbered(doclock.EventWaiting, -1))
				synctest.Wait() // it is being delivered
				for n := range mostEvents {
					o.Emit(t.Context(), numbered(c.waiting(n), n))
				}
				o.Emit(t.Context(), numbered(c.last, mostEvents))
				close(stuck)
				synctest.Wait()
				var dropped []int
				for i, e := range all {
					if e.Dropped > 0 {
						dropped = append(dropped, i, e.Dropped)
					}
				}
				if !slices.Equal(dropped, []int{1, 1}) {
					t.Errorf("dropped %v (position, number), want one before the first that follows", dropped)
				}
				tags := all.tags()[1:]
				without := "nothing"
				for n := range mostEvents {
					if !slices.Contains(tags, fmt.Sprint(n)) {
						without = fmt.Sprint(n)
					}
				}
				last := tags[len(tags)-1]
				if got := "0-" + last + " without " + without; got != c.want || len(tags) != mostEvents {
					t.Errorf("delivered %d: %s, want %s", len(tags), got, c.want)
				}
				o.Emit(t.Context(), numbered(doclock.EventWaiting, 9999))
				synctest.Wait()
				if e := all[len(all)-1]; e.Dropped != 0 {
					t.Errorf("the next one has %d dropped", e.Dropped)
				}
			})
		})
	}
}

// Whatever comes while an observer is stuck, it gets what waits, and the number of the others.
func TestWhatAnObserverHasMissedIsCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stuck := make(chan struct{})
		var all told
		o := NewObserver("", []any{func(ctx context.Context, e doclock.Event) {
			<-stuck
			all.hear(ctx, e)
		}})
		kinds := []doclock.EventKind{doclock.EventGranted, doclock.EventNotGranted, doclock.EventRenewed, doclock.EventLost, doclock.EventReleased, doclock.EventRenewed, doclock.EventOutcomeUnknown}
		const emitted = 5000
		losses := 0
		for n := range emitted {
			kind := kinds[n%len(kinds)]
			if n%10 > 0 && (kind == doclock.EventLost || kind == doclock.EventOutcomeUnknown) { // so few that all of them can stay
				kind = doclock.EventNotGranted
			}
			if kind == doclock.EventLost || kind == doclock.EventOutcomeUnknown {
				losses++
			}
			o.Emit(t.Context(), numbered(kind, n))
			if n == 0 {
				synctest.Wait() // it is being delivered
			}
		}
		close(stuck)
		synctest.Wait()
		missed, got := 0, map[doclock.EventKind]int{}
		for _, e := range all {
			missed += e.Dropped
			got[e.Kind]++
		}
		if len(all) != mostEvents+1 || missed != emitted-mostEvents-1 {
			t.Errorf("of %d events %d were delivered, and %d counted as dropped", emitted, len(all), missed)
		}
		if got[doclock.EventRenewed] > 0 || got[doclock.EventLost]+got[doclock.EventOutcomeUnknown] != losses {
			t.Errorf("delivered are %v, and should be all %d losses and unknown outcomes, and no renewal", got, losses)
		}
	})
}

// A function that panics, or ends its goroutine as a test's FailNow does, ends one call. A
// panic is logged with its stack.
func TestAFunctionThatDoesNotReturn(t *testing.T) {
	var logged bytes.Buffer
	log.SetOutput(&logged)
	defer log.SetOutput(os.Stderr)
	for _, end := range []func(){runtime.Goexit, func() { panic("the observer's own") }} {
		synctest.Test(t, func(t *testing.T) {
			var before, after told
			o := NewObserver("", []any{before.hear, func(_ context.Context, e doclock.Event) {
				if e.Tag == "1" {
					end()
				}
			}, after.hear})
			for n := range 3 {
				o.Emit(t.Context(), numbered(doclock.EventLost, n))
			}
			synctest.Wait()
			wantTags(t, "the function before it", before, "0", "1", "2")
			wantTags(t, "the function after it", after, "0", "1", "2")
		})
	}
	if text := logged.String(); strings.Count(text, "the observer's own") != 1 || !strings.Contains(text, "TestAFunctionThatDoesNotReturn") {
		t.Errorf("logged:\n%s", text)
	}
}
