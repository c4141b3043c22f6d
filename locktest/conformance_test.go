package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// This file plays one table of cases in memory and on the server. After each step
// the outcome and all stored documents must be the same.

// play is a case on one of both.
type play struct {
	*testing.T
	coll  *mongo.Collection
	now   time.Time // the server's clock, set by hand
	steps []string
	names map[string]string // of the ids that were seen, in their order
}

// TestConformance runs the table, and lists it.
func TestConformance(t *testing.T) {
	server := mongotest.Database(t)
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			memory := newPlay(t, locktest.New().Client().Database("test").Collection("cases"))
			real := newPlay(t, server.Collection(fmt.Sprint("case", i)))
			c.run(memory)
			c.run(real)
			for i := range max(len(memory.steps), len(real.steps)) {
				if in, on := at(memory.steps, i), at(real.steps, i); in != on {
					t.Fatalf("step %d\nmemory: %s\nserver: %s", i, in, on)
				}
			}
			if want := c.shows; !strings.Contains(strings.Join(memory.steps, "\n"), want) {
				t.Errorf("no step shows %q:\n%s", want, strings.Join(memory.steps, "\n"))
			}
			t.Logf("same in %d steps: %s", len(memory.steps), c.name)
		})
	}
}

func at(steps []string, i int) string {
	if i < len(steps) {
		return steps[i]
	}
	return "nothing"
}

func newPlay(t *testing.T, coll *mongo.Collection) *play {
	p := &play{T: t, coll: coll, now: time.Date(2030, time.June, 1, 12, 0, 0, 0, time.UTC), names: map[string]string{}}
	p.insert(bson.D{{Key: "_id", Value: 1}, {Key: "name", Value: "flowers"}, {Key: "total", Value: 1}})
	return p
}

func (p *play) insert(document bson.D) {
	p.Helper()
	if _, err := p.coll.InsertOne(context.Background(), document); err != nil {
		p.Fatal(err)
	}
}

// locker is a program, on the clock that is set by hand.
func (p *play) locker(owner string, rules relations.Rules, opts ...doclock.Option) *multilock.Locker {
	p.Helper()
	byHand := func(c *engine.Config) error {
		c.Now = func() time.Time { return p.now }
		return nil
	}
	locks, err := multilock.New(p.coll, rules, append(opts, doclock.Owner(owner), byHand)...)
	if err != nil {
		p.Fatal(err)
	}
	p.Cleanup(func() { check(p.T, locks.Close(context.Background())) })
	return locks
}

// pass lets time pass at the server.
func (p *play) pass(d time.Duration) { p.now = p.now.Add(d) }

// step records an outcome, and what is stored then.
func (p *play) step(what string, err error, more ...any) {
	p.Helper()
	var documents []bson.D
	cursor, failed := p.coll.Find(context.Background(), bson.M{})
	if failed == nil {
		failed = cursor.All(context.Background(), &documents)
	}
	if failed != nil {
		p.Fatal(failed)
	}
	slices.SortFunc(documents, func(a, b bson.D) int { return strings.Compare(fmt.Sprint(a[0]), fmt.Sprint(b[0])) })
	text := fmt.Sprintf("%s: %s %v", what, kind(err), more)
	for _, d := range documents {
		text += "\n\t" + sorted(d)
	}
	p.steps = append(p.steps, uuids.ReplaceAllStringFunc(text, func(id string) string {
		if _, known := p.names[id]; !known {
			p.names[id] = fmt.Sprintf("id%d", len(p.names))
		}
		return p.names[id]
	}))
}

var uuids = regexp.MustCompile(`\{4 \[[0-9 ]+\]\}`)

// sorted is a value with its fields in order, and with its types.
func sorted(v any) string {
	switch v := v.(type) {
	case bson.D:
		fields := map[string]string{}
		for _, f := range v {
			fields[f.Key] = sorted(f.Value)
		}
		var all []string
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			all = append(all, key+": "+fields[key])
		}
		return "{" + strings.Join(all, ", ") + "}"
	case bson.A:
		var all []string
		for _, element := range v {
			all = append(all, sorted(element))
		}
		return "[" + strings.Join(all, ", ") + "]"
	default:
		return fmt.Sprintf("%T %v", v, v)
	}
}

// kinds are the public errors, in the order in which they are told.
var kinds = []error{
	doclock.ErrOutcomeUnknown, doclock.ErrConflict, doclock.ErrNotFound, doclock.ErrForeignLock, doclock.ErrLost, doclock.ErrReleased,
	doclock.ErrInvalidArgument, doclock.ErrNotAcquired,
}

// kind is what an error says to a program.
func kind(err error) string {
	if err == nil {
		return "done"
	}
	var said []string
	for _, k := range kinds {
		if errors.Is(err, k) {
			said = append(said, k.Error())
		}
	}
	var conflict *doclock.ConflictError
	if errors.As(err, &conflict) {
		for _, h := range conflict.Holders {
			said = append(said, fmt.Sprintf("%s of %s, waiting %v, for %v", h.Tag, h.Owner, h.Waiting, h.Remaining))
		}
		said = append(said, fmt.Sprint("again after ", conflict.RetryAfter))
	}
	if len(said) == 0 {
		return "an error"
	}
	return strings.Join(said, "; ")
}

// try acquires, and records that.
func (p *play) try(locks *multilock.Locker, tag string, opts ...doclock.AcquireOption) *doclock.Lease {
	p.Helper()
	lease, err := locks.TryAcquire(context.Background(), bson.M{"_id": 1}, tag, opts...)
	if lease == nil {
		p.step("try "+tag, err)
	} else {
		p.step("try "+tag, err, lease.Fence())
	}
	return lease
}
