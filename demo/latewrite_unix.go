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

// lateWrite stops an adder's process between its look and its write, until its lease has expired and the category is deleted.
// Then it continues the process. Each entry of its log is also passed to show.
func (d *demo) lateWrite(ctx context.Context, show func(logEntry)) (lateWriteResult, error) {
	if err := d.book.reset(ctx, d.people); err != nil {
		return lateWriteResult{}, err
	}
	locks, err := multilock.New(d.book.categories, relations.WritePreferring())
	if err != nil {
		return lateWriteResult{}, err
	}
	deleter := &deleter{book: d.book, locks: locks}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	l := &lateWriteLog{show: show}

	contact := d.people[0]
	j := newLateWriteJob(d.people)
	adder, err := start(ctx, job{URI: d.uri, Database: d.database.Name(), LateWrite: &j})
	if err != nil {
		return l.result, err
	}
	defer adder.stop()
	defer func() { _ = adder.cmd.Process.Kill() }() // a stopped process doesn't react to anything else

	if _, err := expect(adder, aboutToWrite); err != nil {
		return l.result, err
	}
	l.add("adder", `holds "read" on %s for %v, and is about to put it on %s`, j.Category, j.TTL, contact.name)
	if err := adder.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		return l.result, fmt.Errorf("stopping the adder: %w", err)
	}
	l.add("system", "stops the adder's process %d (SIGSTOP); it can't renew its lease now", adder.cmd.Process.Pid)

	_, err = locks.TryAcquire(ctx, bson.M{"name": j.Category}, "write")
	var conflict *doclock.ConflictError
	if !errors.As(err, &conflict) {
		return l.result, fmt.Errorf("a deleter should have got a conflict, and got: %w", err)
	}
	holder := conflict.Holders[0]
	l.add("deleter", `asks for "write" on %s, and is refused: "%s" is held by %s, for %v at most`,
		j.Category, holder.Tag, holder.Owner, conflict.RetryAfter)
	if err := deleter.deleteWithLock(ctx, j.Category); err != nil {
		return l.result, fmt.Errorf("deleting the category of the stopped adder: %w", err)
	}
	l.add("deleter", `waits until the lease has expired, gets "write", and deletes %s`, j.Category)
	if _, err := l.scan(ctx, d.book); err != nil {
		return l.result, err
	}

	if err := errors.Join(adder.proceed(), adder.cmd.Process.Signal(syscall.SIGCONT)); err != nil {
		return l.result, fmt.Errorf("continuing the adder: %w", err)
	}
	l.add("system", "continues the adder (SIGCONT)")
	if _, err := expect(adder, hasWritten); err != nil {
		return l.result, err
	}
	l.add("adder", "writes, too late: the lock is in the category, and can't stop a write to a contact")
	if l.result.Dangling, err = l.scan(ctx, d.book); err != nil {
		return l.result, err
	}

	if err := adder.proceed(); err != nil {
		return l.result, err
	}
	released, err := expect(adder, hasReleased)
	if err != nil {
		return l.result, err
	}
	l.result.Noticed = released.Lost
	l.add("adder", "releases its lock, and notices the loss; its call returns: %s", released.Error)
	l.result.After, err = l.scan(ctx, d.book)
	return l.result, err
}

// expect waits for a step of the adder's.
func expect(adder *process, name string) (step, error) {
	m, err := adder.next()
	switch {
	case err != nil:
		return step{}, err
	case m.Step == nil || m.Step.Name != name:
		return step{}, fmt.Errorf("the adder should have sent the step %q, and sent %+v", name, m.Step)
	default:
		return *m.Step, nil
	}
}

// A lateWriteLog is the log of the late write, and its result.
type lateWriteLog struct {
	began  time.Time // with the first entry
	show   func(logEntry)
	result lateWriteResult
}

func (l *lateWriteLog) add(who, what string, args ...any) {
	if l.began.IsZero() {
		l.began = time.Now()
	}
	e := logEntry{Seconds: time.Since(l.began).Seconds(), Who: who, What: fmt.Sprintf(what, args...)}
	l.result.Log = append(l.result.Log, e)
	l.show(e)
}

// scan adds what a full scan finds, and returns the number of dangling references.
func (l *lateWriteLog) scan(ctx context.Context, b *book) (dangling int, err error) {
	found, err := b.scan(ctx)
	if err != nil {
		return 0, err
	}
	what := found.summary()
	if found.Dangling > 0 {
		what += ": " + found.Example
	}
	l.add("full scan", "%s", what)
	return found.Dangling, nil
}
