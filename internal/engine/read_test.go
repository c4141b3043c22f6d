package engine

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// A read is one message, whatever it meets, and tells the server how long its sender
// waits. The driver's own would be sent again at once, thousands of times a second.
func TestAReadIsSentOnce(t *testing.T) {
	t.Parallel()
	reads := map[string]func(context.Context, *Engine, Filter) error{
		"read": func(ctx context.Context, e *Engine, f Filter) error { _, err := e.Read(ctx, f.Pin); return err },
		"standing": func(ctx context.Context, e *Engine, f Filter) error {
			_, _, err := e.Standing(ctx, []Grant{{Pin: f.Pin}})
			return err
		},
		"absent": func(ctx context.Context, e *Engine, f Filter) error { return e.Absent(ctx, f) },
		"find":   func(ctx context.Context, e *Engine, f Filter) error { _, err := e.Find(ctx, f); return err },
		"survey": func(ctx context.Context, e *Engine, _ Filter) error {
			found, err := e.Survey(ctx, Survey{})
			if err == nil {
				for _, err = range found {
				}
			}
			return err
		},
	}
	for name, read := range reads {
		for fault, strike := range map[string]func(*locktest.Server){
			"none":           func(*locktest.Server) {},
			"a code":         func(c *locktest.Server) { c.Fail(1<<30, mongo.CommandError{Code: 189, Message: "on purpose"}) },
			"a lost reply":   func(c *locktest.Server) { c.LoseReplies(1 << 30) },
			"a lost request": func(c *locktest.Server) { c.LoseRequests(1 << 30) },
		} {
			t.Run(name+", "+fault, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					c := locktest.New(t, locktest.ReplicaSet())
					var sent []bson.Raw
					client := c.Connect(options.Client().SetMonitor(fixture.Monitor(func(command bson.Raw) {
						if sent = append(sent, command); len(sent) > 100 {
							c.Fail(0, mongo.CommandError{}) // or else the driver's loop has no end
							c.LoseReplies(0)
							c.LoseRequests(0)
						}
					})))
					e, err := New(client.Database("test").Collection("orders"), relations.Exclusive(), Config{Terms: Terms{TTL: DefaultTTL}, Field: DefaultField})
					if err != nil {
						t.Fatal(err)
					}
					f, err := e.ParseFilter(bson.M{"_id": 1})
					if err != nil {
						t.Fatal(err)
					}
					strike(c)
					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					if err := read(ctx, e, f); (err != nil) != (fault != "none") {
						t.Errorf("the error is %v", err)
					}
					if len(sent) != 1 {
						t.Fatalf("%d commands", len(sent))
					}
					if most, _ := sent[0].Lookup("maxTimeMS").AsInt64OK(); most < 4000 || most > 5000 {
						t.Errorf("the server is not told how long its sender waits: %v", sent[0])
					}
				})
			})
		}
	}
}
