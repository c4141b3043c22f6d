// Package ticks tries a scheduler of jobs in three processes, whose clocks differ by a second and one of which is killed: no
// tick may run twice, and none may be left out.
//
// A machine that is busy may be late with anything. So each process says how late it was, and is judged by what is promised
// for that: see [Try].
package ticks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	Period = 3 * time.Second // between two ticks, at whole multiples of it
	Spread = time.Second     // between the clocks
	early  = Period / 10     // by which a timer may be, so that its tick has the right name
)

// Jobs are those of each process, and what they take: one outlasts its tick.
var Jobs = map[string]time.Duration{"short": 5 * time.Millisecond, "long": Period * 3 / 2}

// Instance is what a process is started with.
type Instance struct {
	URI, Database string
	Owner         string        // for the Locker
	Behind        time.Duration // its clock
}

// Now is the time by the clock of the instance.
func (i Instance) Now() time.Time { return time.Now().Add(-i.Behind) }

// Connect makes a Locker of the jobs' collection, and a function that names the tick of a job by the instance's clock. Call it
// before the lock is asked for.
func (i Instance) Connect() (locks *writelock.Locker, fire func(job string) *Fire, err error) {
	client, err := mongo.Connect(options.Client().ApplyURI(i.URI))
	if err != nil {
		return nil, nil, err
	}
	db := client.Database(i.Database)
	locks, err = writelock.New(db.Collection("jobs"), doclock.Upsert(), doclock.Owner(i.Owner), doclock.ClockTolerance(0))
	return locks, func(job string) *Fire {
		return &Fire{i, db.Collection("runs"), line{Job: job, Tick: i.Now().Add(early).UnixNano() / int64(Period)}}
	}, err
}

// Fire is a tick for which an instance asks.
type Fire struct {
	instance Instance
	runs     *mongo.Collection
	line
}

// line is what an instance says of a tick, by its own clock.
type line struct {
	Job, What string
	Tick      int64
	Late      time.Duration // after the tick
	By        string        // the holder that refuses it, or the failure
}

func (f *Fire) say(what, by string) {
	f.What, f.By, f.Late = what, by, f.instance.Now().Sub(time.Unix(0, f.Tick*int64(Period)))
	text, err := json.Marshal(f.line)
	if err != nil {
		panic(err)
	}
	fmt.Println(string(text)) // one write: lines of goroutines don't mix
}

// Refused is called with the error of the lock.
func (f *Fire) Refused(err error) {
	var conflict *doclock.ConflictError
	if errors.As(err, &conflict) && len(conflict.Holders) == 1 {
		f.say("refused", conflict.Holders[0].Owner)
	} else {
		f.say("failed", fmt.Sprint(err))
	}
}

// Released is called after the release of the lock.
func (f *Fire) Released() { f.say("released", "") }

// Run is the job. The unique key of its document is the job and the tick.
func (f *Fire) Run() {
	f.say("granted", "")
	_, err := f.runs.InsertOne(context.Background(), bson.M{"_id": bson.D{{Key: "job", Value: f.Job}, {Key: "tick", Value: f.Tick}}})
	switch {
	case mongo.IsDuplicateKeyError(err):
		f.say("doubled", "")
	case err != nil:
		f.say("failed", err.Error())
	default:
		<-time.After(Jobs[f.Job])
		f.say("over", "")
	}
}
