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

// A scene is the story of one late write.
type scene struct {
	Contact  int           // who is given
	Category string        // this category
	TTL      time.Duration // by an adder whose lease lasts so long
}

// newScene casts the first contact, and a category that it does not have yet.
func newScene(people []person) scene {
	i := slices.IndexFunc(categoryNames, func(name string) bool { return !slices.Contains(people[0].categories, name) })
	return scene{Contact: 0, Category: categoryNames[i], TTL: time.Second}
}

// The steps of the scene's adder.
const (
	aboutToWrite = "about to write"
	hasWritten   = "has written"
	hasReleased  = "has released"
)

// A sceneEvent is a step that the adder tells of.
type sceneEvent struct {
	Step  string
	Lost  bool   `json:",omitempty"` // on hasReleased: it noticed that the lock was lost
	Error string `json:",omitempty"` // and what it was told
}

// A story is how the scene went.
type story struct {
	LeftOut  string `json:"leftOut,omitempty"` // why there was none
	Lines    []line `json:"lines,omitempty"`
	Noticed  bool   `json:"noticed"`         // the adder noticed at the release that its lock had been lost
	Dangling int    `json:"danglingBetween"` // references, between the late write and the release
	After    int    `json:"danglingAfter"`   // and when all was over
}

// A line of a story.
type line struct {
	Seconds float64 `json:"seconds"`
	Who     string  `json:"who"`
	What    string  `json:"what"`
}

// comeLate plays the adder of the scene, in the process that is stopped. It runs the same code as all adders, but for the
// write: where an adder is stopped just before its request leaves the machine, no check can help any more. To meet that
// moment every time, the scene's write waits for a signal, and is not cut off by the end of the lease.
func (w *worker) comeLate(ctx context.Context) error {
	s := w.order.Scene
	locks, err := multilock.New(w.book.categories, relations.WritePreferring(), doclock.TTL(s.TTL), doclock.AttemptTimeout(s.TTL))
	if err != nil {
		return err
	}
	if err := w.client.Ping(ctx, nil); err != nil {
		return err
	}
	a := newAdder(w.book, locks, 0)
	a.put = func(held context.Context, contact int, category bson.ObjectID) error {
		w.say(message{Event: &sceneEvent{Step: aboutToWrite}})
		if err := w.await(ctx); err != nil {
			return err
		}
		err := w.book.put(context.WithoutCancel(held), contact, category)
		w.say(message{Event: &sceneEvent{Step: hasWritten}})
		return errors.Join(err, w.await(ctx))
	}
	err = a.addWithLock(ctx, s.Contact, s.Category)
	w.say(message{Event: &sceneEvent{Step: hasReleased, Lost: errors.Is(err, doclock.ErrLost), Error: fmt.Sprint(err)}})
	return locks.Close(ctx)
}
