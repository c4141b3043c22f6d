package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/examples/contact/book"
	"github.com/doclock/doclock/internal/child"
	"go.mongodb.org/mongo-driver/v2/event"
)

// A lateWriteResult is how the late write went.
type lateWriteResult struct {
	leftOut  bool
	noticed  bool // the adder noticed that its lock was lost
	dangling int  // references after the late write
}

// lateTTL is the TTL of the adder whose insert is late.
const lateTTL = 2 * time.Second

// commit is the command by which the insert of a transaction is applied. inserted is what the adder says if it has inserted
// without a transaction.
const commit, inserted = "commitTransaction", "inserted"

// writeLate is the adder whose process is stopped. It runs the same code as all adders. No check can help a process that is
// stopped just before its request leaves the machine. To reach that moment every time, the first commit waits there until it is
// told to go on.
func writeLate(ctx context.Context, j job) error {
	var commits sync.Once
	client, err := connect(j.URI, func(command *event.CommandStartedEvent) {
		if command.CommandName == commit {
			commits.Do(func() {
				fmt.Println(commit)
				_ = child.Await(ctx)
			})
		}
	})
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	locked, err := book.Open(client.Database(j.Database), doclock.TTL(lateTTL), doclock.AttemptTimeout(doclock.MaxAttemptTimeout)) // so that the late command is sent
	if err != nil {
		return err
	}
	if err := locked.AddContact(ctx, "Noah Costa", j.Category); err != nil {
		fmt.Println(err)
	} else {
		fmt.Println(inserted)
	}
	return locked.Close(ctx)
}

// lateWrite stops an adder's process just before its commit, until its lease has expired and the category is deleted. Then it
// continues the process.
func (d *demo) lateWrite(ctx context.Context) (r lateWriteResult, err error) {
	if !child.CanStop {
		fmt.Println("   Left out: this system can't stop a process and continue it (SIGSTOP, SIGCONT).")
		return lateWriteResult{leftOut: true}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	plain := openPlain(d.database)
	if err := plain.reset(ctx); err != nil {
		return r, err
	}
	j := job{URI: d.uri, Database: d.database.Name()}
	if j.Category, err = plain.create(ctx); err != nil {
		return r, err
	}
	var began time.Time
	say := func(who, what string, args ...any) {
		fmt.Printf("   %5.3f s  %-9s  %s\n", time.Since(began).Seconds(), who, fmt.Sprintf(what, args...))
	}
	adder, err := child.Start(ctx, "late", j, nil)
	if err != nil {
		return r, err
	}
	defer func() {
		adder.Kill() // a stopped process doesn't react to anything else
		_ = adder.End()
	}()
	deleter, err := book.Open(d.database, doclock.OnEvent(func(_ context.Context, e doclock.Event) {
		if e.Kind == doclock.EventWaiting && e.How == "" {
			say("deleter", `asks for "write", and waits: "%s" is held by %s`, e.Holders[0].Tag, e.Holders[0].Owner)
		}
	}))
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, deleter.Close(context.WithoutCancel(ctx))) }()

	about, err := adder.Hear()
	if err != nil {
		return r, err
	}
	switch about {
	case commit:
	case inserted:
		fmt.Println("   Left out: this server has no transactions, and the lock is in another document than the write.")
		return lateWriteResult{leftOut: true}, nil
	default: // it was too slow to renew its lease, or has met another error
		return r, fmt.Errorf("the adder's call returned before its commit: %s", about)
	}
	began = time.Now()
	say("adder", `holds "read" on the category for %v, and is about to send the commit of a contact of it`, lateTTL)
	adder.Stop()
	say("system", "stops the adder's process %d (SIGSTOP); it can't renew its lease now", adder.Pid())
	if err := deleter.DeleteCategory(ctx, j.Category); err != nil {
		return r, fmt.Errorf("deleting the category of the stopped adder: %w", err)
	}
	say("deleter", `gets "write" when the lease has expired and the server has ended the transaction, and deletes the category`)

	say("system", "continues the adder (SIGCONT)")
	adder.Continue()
	_ = adder.Proceed()
	returned, err := adder.Hear()
	if err != nil {
		return r, err
	}
	r.noticed = strings.Contains(returned, doclock.ErrLost.Error())
	say("adder", "is too late with its commit: the transaction is over; its call returns: %s", returned)
	found, err := plain.scan(ctx)
	if err == nil {
		say("full scan", "%v", found)
	}
	r.dangling = found.Dangling
	return r, err
}
