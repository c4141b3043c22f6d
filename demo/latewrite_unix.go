//go:build unix

package main

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// play stops an adder between its look and its write, until its lease has run out and the category is deleted, and has it
// continue.
func (s *stage) play(ctx context.Context, tell func(line)) (story, error) {
	if err := s.book.fill(ctx, s.people); err != nil {
		return story{}, err
	}
	locks, err := multilock.New(s.book.categories, relations.WritePreferring())
	if err != nil {
		return story{}, err
	}
	deleter := &deleter{book: s.book, locks: locks}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	t := &telling{tell: tell}

	who := s.people[0]
	scene := newScene(s.people)
	adder, err := start(ctx, order{URI: s.uri, Database: s.database.Name(), Scene: &scene})
	if err != nil {
		return t.story, err
	}
	defer adder.stop()
	defer func() { _ = adder.cmd.Process.Kill() }() // it may be stopped, and hear nothing else

	if _, err := expect(adder, aboutToWrite); err != nil {
		return t.story, err
	}
	t.say("adder", `holds "read" on %s for %v, and is about to put it on %s`, scene.Category, scene.TTL, who.name)
	if err := adder.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return t.story, fmt.Errorf("stopping the adder: %w", err)
	}
	t.say("system", "stops the adder's process %d (SIGSTOP); it can't renew its lease now", adder.cmd.Process.Pid)

	_, err = locks.TryAcquire(ctx, bson.M{"name": scene.Category}, "write")
	var conflict *doclock.ConflictError
	if !errors.As(err, &conflict) {
		return t.story, fmt.Errorf("a deleter should have met a conflict, and got: %w", err)
	}
	holder := conflict.Holders[0]
	t.say("deleter", `asks for "write" on %s, and is kept back by "%s" of %s, for %v at most`,
		scene.Category, holder.Tag, holder.Owner, conflict.RetryAfter)
	if err := deleter.deleteWithLock(ctx, scene.Category); err != nil {
		return t.story, fmt.Errorf("deleting the category behind the stopped adder: %w", err)
	}
	t.say("deleter", `waited until the lease had run out, got "write", and deleted %s`, scene.Category)
	if _, err := t.scan(ctx, s.book); err != nil {
		return t.story, err
	}

	if err := errors.Join(adder.signal(), adder.cmd.Process.Signal(syscall.SIGCONT)); err != nil {
		return t.story, fmt.Errorf("continuing the adder: %w", err)
	}
	t.say("system", "continues the adder (SIGCONT)")
	if _, err := expect(adder, hasWritten); err != nil {
		return t.story, err
	}
	t.say("adder", "writes, too late: the lock is in the category, and can't stop a write to a contact")
	if t.story.Dangling, err = t.scan(ctx, s.book); err != nil {
		return t.story, err
	}

	if err := adder.signal(); err != nil {
		return t.story, err
	}
	released, err := expect(adder, hasReleased)
	if err != nil {
		return t.story, err
	}
	t.story.Noticed = released.Lost
	t.say("adder", "releases its lock, and notices; its call returns: %s", released.Error)
	t.story.After, err = t.scan(ctx, s.book)
	return t.story, err
}

// expect waits for a step of the adder's.
func expect(adder *process, step string) (sceneEvent, error) {
	m, err := adder.next()
	switch {
	case err != nil:
		return sceneEvent{}, err
	case m.Event == nil || m.Event.Step != step:
		return sceneEvent{}, fmt.Errorf("the adder %q was expected, and came with %+v", step, m.Event)
	default:
		return *m.Event, nil
	}
}

// A telling is a story while it is told.
type telling struct {
	began time.Time // with the first line
	tell  func(line)
	story story
}

func (t *telling) say(who, what string, args ...any) {
	if t.began.IsZero() {
		t.began = time.Now()
	}
	l := line{Seconds: time.Since(t.began).Seconds(), Who: who, What: fmt.Sprintf(what, args...)}
	t.story.Lines = append(t.story.Lines, l)
	t.tell(l)
}

func (t *telling) scan(ctx context.Context, b *book) (dangling int, err error) {
	found, err := b.scan(ctx)
	if err != nil {
		return 0, err
	}
	what := found.dangling()
	if found.Dangling > 0 {
		what += ": " + found.Example
	}
	t.say("full scan", "%s", what)
	return found.Dangling, nil
}
