package scenarios

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock/internal/child"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Main turns the process into one of a scenario's if it was started as such, and then
// does not return. Tests that run scenarios call it first.
func Main() {
	for name, work := range map[string]func(context.Context, job, *mongo.Collection) error{
		"mover": move, "worker": workOnJobs, "candidate": lead,
	} {
		child.Main(name, func(ctx context.Context, j job) error {
			client, err := mongo.Connect(options.Client().ApplyURI(j.URI))
			if err != nil {
				return err
			}
			return work(ctx, j, client.Database(j.Database).Collection(j.Collection))
		})
	}
}

// job is what a process does.
type job struct {
	URI, Database, Collection string
	Owner                     string // of its locks
	ID                        string // of its document
	Clients                   int    // of a process that moves money
	Careless                  bool   // it locks nothing: the checks must fail
}

var saying sync.Mutex

// say prints an event of a process as a line.
func say(event any) {
	line, err := json.Marshal(event)
	if err != nil {
		panic(err)
	}
	saying.Lock()
	defer saying.Unlock()
	fmt.Printf("%s\n", line)
}

// heard reads a line of a process. One that was killed may have left half of a line.
func heard[Event any](line string) (event Event, whole bool) {
	return event, json.Unmarshal([]byte(line), &event) == nil
}

// long is the TTL of programs whose processes are killed. It doesn't pass: what the dead
// and the stopped hold is made to expire by hand.
const long = 2 * patience

// crew is the processes of a scenario that lock the documents of a collection.
type crew struct {
	counting
	docs    *mongo.Collection
	started int
	dead    []string // owners of what has to expire
}

// start starts a process, under its own owner. Each event that it prints is noted.
func start[Event any](c *crew, name string, j job, note func(p *child.Process, owner string, e Event)) (p *child.Process, owner string) {
	c.Helper()
	c.started++
	owner = fmt.Sprintf("%s-%d", name, c.started)
	j.Owner, j.Database, j.Collection = owner, c.docs.Database().Name(), c.docs.Name()
	p, err := child.Start(c.Context(), name, j, func(p *child.Process, line string) {
		if e, whole := heard[Event](line); whole {
			note(p, owner, e)
		} else if strings.HasPrefix(line, "failed ") {
			c.Errorf("%s: %s", owner, line)
		}
	})
	c.must(err)
	c.Cleanup(func() { _ = p.End() })
	return p, owner
}

// expire ends what the dead hold. Their last commands may be executed after their
// death, so it is repeated.
func (c *crew) expire() {
	c.Helper()
	if len(c.dead) == 0 {
		return
	}
	theirs := bson.M{"$in": c.dead}
	_, err := c.docs.UpdateMany(c.Context(), bson.M{"lock.tags.write.owner": theirs},
		bson.M{"$set": bson.M{"lock.tags.write.$[e].expires": time.UnixMilli(0)}},
		options.UpdateMany().SetArrayFilters([]any{bson.M{"e.owner": theirs}}))
	c.must(err)
}
