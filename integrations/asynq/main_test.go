package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/writelock"
	"github.com/hibiken/asynq"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

func TestMain(m *testing.M) {
	child.Main("instance", instance)
	mongotest.Main(m)
}

type job struct{ URI, Database, Redis string }

// instance prints the id of each task that it has enqueued.
func instance(ctx context.Context, j job) error {
	client, err := mongo.Connect(options.Client().ApplyURI(j.URI))
	if err != nil {
		return err
	}
	locks, err := writelock.New(client.Database(j.Database).Collection("locks"), doclock.Upsert())
	if err != nil {
		return err
	}
	err = enqueue(ctx, locks, asynq.RedisClientOpt{Addr: j.Redis}, &asynq.SchedulerOpts{
		LogLevel: asynq.FatalLevel,
		PostEnqueueFunc: func(info *asynq.TaskInfo, err error) {
			if err == nil {
				fmt.Println(info.ID)
			}
		},
	})
	if errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// Three instances, one of which enqueues. It is killed, and another one goes on. In redis, where the tasks have an order, no
// task of an instance comes after those of its successor.
func TestOneInstanceEnqueues(t *testing.T) {
	redis := miniredis.RunT(t)
	j := job{mongotest.URI(t), mongotest.Database(t).Name(), redis.Addr()}
	var mu sync.Mutex
	by, processes := map[string]int{}, make([]*child.Process, 3) // by task
	lines := make(chan int, 1000)
	for i := range processes {
		p, err := child.Start(t.Context(), "instance", j, func(_ *child.Process, line string) {
			mu.Lock()
			by[line] = i
			mu.Unlock()
			lines <- i
		})
		if err != nil {
			t.Fatal(err)
		}
		processes[i] = p
	}
	killed, leader, patience := -1, 0, time.After(mongotest.Patience)
	for tasks := [3]int{}; ; {
		select {
		case i := <-lines:
			tasks[i]++
			if killed < 0 && tasks[i] == 3 {
				killed = i
				processes[i].Kill()
			}
			if leader = i; i == killed || tasks[i] < 3 {
				continue
			}
		case <-patience:
			t.Error("it did not come about that another instance enqueued")
		}
		break
	}
	for i, p := range processes { // the others first: none may succeed the leader
		if i != leader {
			p.Kill()
			_ = p.End()
		}
	}
	if err := processes[leader].End(); err != nil {
		t.Errorf("the leader ended with %v", err)
	}
	keys, err := redis.List("asynq:{default}:pending") // the last is the first
	if err != nil {
		t.Fatal(err)
	}
	var order strings.Builder
	terms, last := 0, -1
	for n := len(keys) - 1; n >= 0; n-- {
		i, known := by[keys[n]]
		if known && i != last { // the one that was killed may have had no time to say so
			terms, last = terms+1, i
		}
		fmt.Fprint(&order, " ", i)
	}
	t.Logf("process %d was killed; the tasks are of the processes%s", killed, &order)
	if terms != 2 {
		t.Errorf("%d terms, want 2", terms)
	}
	if len(keys) < len(by) {
		t.Errorf("%d tasks in redis, and %d were enqueued", len(keys), len(by))
	}
}
