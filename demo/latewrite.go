package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// A lateWriteJob tells a worker to be the adder whose write is late.
type lateWriteJob struct {
	Contact  int
	Category string // that the contact is given
	TTL      time.Duration
}

// newLateWriteJob chooses the first contact, and a category that it does not have yet.
func newLateWriteJob(people []person) lateWriteJob {
	i := slices.IndexFunc(categoryNames, func(name string) bool { return !slices.Contains(people[0].categories, name) })
	return lateWriteJob{Contact: 0, Category: categoryNames[i], TTL: time.Second}
}

// The names of the adder's steps.
const (
	aboutToWrite = "about to write"
	hasWritten   = "has written"
	hasReleased  = "has released"
)

// A step is what the adder reports of itself.
type step struct {
	Name  string
	Lost  bool   `json:",omitempty"` // of hasReleased: the adder noticed that the lock was lost
	Error string `json:",omitempty"` // of hasReleased: what its call returned
}

// A lateWriteResult is how the late write went.
type lateWriteResult struct {
	LeftOut  string     `json:"leftOut,omitempty"` // why it was left out
	Log      []logEntry `json:"lines,omitempty"`
	Noticed  bool       `json:"noticed"`         // the adder noticed at the release that its lock was lost
	Dangling int        `json:"danglingBetween"` // references, between the late write and the release
	After    int        `json:"danglingAfter"`   // and at the end
}

// A logEntry is a line of the report on the late write.
type logEntry struct {
	Seconds float64 `json:"seconds"` // since the first entry
	Who     string  `json:"who"`
	What    string  `json:"what"`
}

// writeLate is the adder whose process is stopped. It runs the same code as all adders, except for the write. No check can help
// a process that is stopped just before its request leaves the machine. To reach that moment every time, this write waits until
// it is told to go on.
func (w *worker) writeLate(ctx context.Context) error {
	j := w.job.LateWrite
	locks, err := multilock.New(w.book.categories, relations.WritePreferring(), doclock.TTL(j.TTL), doclock.AttemptTimeout(j.TTL))
	if err != nil {
		return err
	}
	if err := w.client.Ping(ctx, nil); err != nil {
		return err
	}
	a := newAdder(w.book, locks, 0)
	a.write = func(held context.Context, contact int, category bson.ObjectID) error {
		w.send(message{Step: &step{Name: aboutToWrite}})
		if err := w.await(ctx); err != nil {
			return err
		}
		err := w.book.addCategory(held, contact, category)
		w.send(message{Step: &step{Name: hasWritten}})
		return errors.Join(err, w.await(ctx))
	}
	err = a.addWithLock(ctx, j.Contact, j.Category)
	w.send(message{Step: &step{Name: hasReleased, Lost: errors.Is(err, doclock.ErrLost), Error: fmt.Sprint(err)}})
	return locks.Close(ctx)
}
