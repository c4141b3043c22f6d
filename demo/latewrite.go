package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/examples/contact/book"
	"github.com/doclock/doclock/internal/child"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
)

// A lateWriteResult is how the late write went.
type lateWriteResult struct {
	leftOut  bool
	noticed  bool // the adder noticed that its lock was lost
	dangling int  // references, between the late insert and its undoing
	after    int  // and at the end
}

// A lateJob tells a process to be the adder whose insert is late.
type lateJob struct {
	URI, Database string
	Category      bson.ObjectID
	TTL           time.Duration
}

// The lines that it prints; the last one is followed by the error of its call.
const (
	aboutToInsert = "about to insert"
	aboutToUndo   = "about to undo"
	hasReturned   = "returned"
)

// writeLate is the adder whose process is stopped. It runs the same code as all adders. No check can help a process that is
// stopped just before its request leaves the machine. To reach that moment every time, the insert waits there until it is told to
// go on. So does the command that undoes it, so that the dangling reference can be seen.
func writeLate(ctx context.Context, j lateJob) error {
	_ = child.Await(ctx) // the process ends soon if ctx has ended
	pause := func(line string) {
		fmt.Println(line)
		_ = child.Await(ctx)
	}
	client, err := connect(j.URI, func(command *event.CommandStartedEvent) {
		switch {
		case insertsContact(command):
			pause(aboutToInsert)
		case command.CommandName == "delete":
			pause(aboutToUndo)
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	locked, err := book.Open(client.Database(j.Database), doclock.TTL(j.TTL), doclock.AttemptTimeout(j.TTL))
	if err != nil {
		return err
	}
	err = locked.AddContact(ctx, "Noah Costa", j.Category)
	fmt.Println(hasReturned, err)
	return locked.Close(ctx)
}

// lateWrite stops an adder's process just before its insert, until its lease has expired and the category is deleted. Then it
// continues the process.
func (d *demo) lateWrite(ctx context.Context) (r lateWriteResult, err error) {
	if !child.CanStop {
		d.print("   Left out: this system can't stop a process and continue it (SIGSTOP, SIGCONT).")
		return lateWriteResult{leftOut: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	plain := openPlain(d.database)
	if err := plain.reset(ctx); err != nil {
		return r, err
	}
	category, err := plain.create(ctx)
	if err != nil {
		return r, err
	}
	began := time.Now()
	say := func(who, what string, args ...any) {
		d.print("   %5.3f s  %-9s  %s", time.Since(began).Seconds(), who, fmt.Sprintf(what, args...))
	}
	fullScan := func(dangling *int) error {
		found, err := plain.scan(ctx)
		if err == nil {
			*dangling = found.Dangling
			say("full scan", "%v", found)
		}
		return err
	}

	j := lateJob{URI: d.uri, Database: d.database.Name(), Category: category, TTL: time.Second}
	adder, err := child.Start(ctx, "late", j, nil)
	if err != nil {
		return r, err
	}
	defer func() {
		adder.Kill() // a stopped process doesn't react to anything else
		_ = adder.End()
	}()
	if _, err := proceed(adder, aboutToInsert); err != nil {
		return r, err
	}
	began = time.Now()
	say("adder", `holds "read" on the category for %v, and is about to insert a contact of it`, j.TTL)
	adder.Stop()
	say("system", "stops the adder's process %d (SIGSTOP); it can't renew its lease now", adder.Pid())
	if err := d.deleteMeanwhile(ctx, category, say); err != nil {
		return r, err
	}
	if err := fullScan(&r.dangling); err != nil {
		return r, err
	}

	say("system", "continues the adder (SIGCONT)")
	adder.Continue()
	if _, err := proceed(adder, aboutToUndo); err != nil {
		return r, err
	}
	say("adder", "has inserted, too late: the lock is in the category, and can't stop a write to a contact")
	if err := fullScan(&r.dangling); err != nil {
		return r, err
	}
	returned, err := proceed(adder, hasReturned)
	if err != nil {
		return r, err
	}
	r.noticed = strings.Contains(returned, doclock.ErrLost.Error())
	say("adder", "has noticed the loss when it released its lock, and undone the insert; its call returns: %s", returned)
	return r, fullScan(&r.after)
}

// deleteMeanwhile deletes the category of the stopped adder.
func (d *demo) deleteMeanwhile(ctx context.Context, category bson.ObjectID, say func(who, what string, args ...any)) error {
	locks, err := multilock.New(d.database.Collection("categories"), relations.WritePreferring())
	if err != nil {
		return err
	}
	deleter, err := book.Open(d.database)
	if err != nil {
		return err
	}
	_, err = locks.TryAcquire(ctx, doclock.ID(category), "write")
	var conflict *doclock.ConflictError
	if !errors.As(err, &conflict) {
		return fmt.Errorf("a deleter should have got a conflict, and got: %w", err)
	}
	say("deleter", `asks for "write", and is refused: "%s" is held by %s, for %v at most`,
		conflict.Holders[0].Tag, conflict.Holders[0].Owner, conflict.RetryAfter)
	if err := deleter.DeleteCategory(ctx, category); err != nil {
		return fmt.Errorf("deleting the category of the stopped adder: %w", err)
	}
	say("deleter", `waits until the lease has expired, gets "write", and deletes the category`)
	return errors.Join(locks.Close(ctx), deleter.Close(ctx))
}

// proceed lets the adder go on until it prints a line that begins so, and returns the rest of the line.
func proceed(adder *child.Process, beginning string) (rest string, err error) {
	if err := adder.Proceed(); err != nil {
		return "", err
	}
	line, err := adder.Hear()
	rest, found := strings.CutPrefix(line, beginning)
	if err == nil && !found {
		err = fmt.Errorf("the adder should have printed %q, and printed %q", beginning, line)
	}
	return strings.TrimSpace(rest), err
}
