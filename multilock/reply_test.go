package multilock_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// driverError is the driver's part of an error.
func driverError(err error) error {
	var command mongo.CommandError
	if errors.As(err, &command) {
		return command
	}
	var exception mongo.WriteException
	if errors.As(err, &exception) {
		return exception
	}
	return nil
}

// unreplicated adds a write-concern error to a real reply: no majority has
// acknowledged the write.
func unreplicated(reply bson.Raw) any {
	var d bson.D
	if err := bson.Unmarshal(reply, &d); err != nil {
		panic(err)
	}
	return append(d, bson.E{Key: "writeConcernError", Value: bson.M{"code": 100, "codeName": "UnsatisfiableWriteConcern", "errmsg": "not enough data-bearing nodes"}})
}

// After a write-concern error the write may be rolled back. The acquire is
// repeated by its id, and the second answer counts.
func TestWriteConcernErrorIsRepeated(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair())
	again := func(name string, call func()) {
		t.Helper()
		first := net.ArmRewrite(faultnet.Rewrite, "findAndModify", unreplicated)
		second := net.ArmRewrite(faultnet.Rewrite, "findAndModify", unreplicated)
		third := net.ArmWhere(faultnet.Repeat, func(string, bson.Raw) bool { return true })
		call()
		for _, f := range []*faultnet.Fault{first, second, third} {
			p.eventually(name+" is sent a third time, after two write-concern errors", func() bool {
				select {
				case <-f.Fired():
					return true
				default:
					return false
				}
			})
		}
		net.Disarm()
		if err := third.Let(); err != nil {
			t.Fatal(err)
		}
	}
	var lease *doclock.Lease
	again("an acquire that grants", func() { lease = p.try(l, "read") })
	p.wantEntries(lease)
	again("an acquire that is refused", func() {
		_, err := l.TryAcquire(p.bounded(), flowers, "write")
		if c := p.conflict(err); len(c.Holders) != 1 || c.Holders[0].ID != lease.ID() {
			t.Errorf("in the way: %+v", c.Holders)
		}
	})
	p.wantEntries(lease)
	again("an acquire that finds nothing", func() {
		_, err := l.TryAcquire(p.bounded(), bson.M{"_id": 2}, "write")
		p.want(err, doclock.ErrNotFound)
	})
	ticket := p.enqueue(l, "write")
	p.release(lease)
	again("a confirm", func() {
		var err error
		if lease, err = ticket.Confirm(p.bounded()); err != nil {
			t.Fatal(err)
		}
	})
	p.wantEntries(lease)
}

// If every answer has such an error, the outcome is unknown. The entry is
// released, and the acquire returns neither a lease nor a conflict.
func TestWriteConcernErrorThatStays(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair())
	stay := func() {
		for range 100 {
			net.ArmRewrite(faultnet.Rewrite, "findAndModify", unreplicated)
		}
	}
	ask := func(tag string) error {
		t.Helper()
		stay()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		lease, err := l.TryAcquire(ctx, flowers, tag)
		if lease != nil {
			t.Error("there is a lease")
		}
		p.want(err, doclock.ErrNotAcquired)
		p.wantNot(err, doclock.ErrConflict)
		net.Disarm()
		return err
	}
	p.want(ask("write"), context.DeadlineExceeded)
	p.eventually("the entry is released", func() bool { return len(p.entries()) == 0 })
	holder := p.try(l, "read")
	ask("write")
	stay()
	_, err := l.TryAcquire(t.Context(), byName, "read") // sent once
	net.Disarm()
	p.want(err, doclock.ErrNotAcquired)
	var exception mongo.WriteException
	if !errors.As(err, &exception) || exception.WriteConcernError == nil || exception.WriteConcernError.Code != 100 {
		t.Errorf("the driver's write-concern error is not in %v", err)
	}
	p.rest(l)
	p.wantEntries(holder)
}

// An error reply without labels is the server's statement that nothing was done.
// The error is returned as it came, and no entry stays behind.
func TestServersRefusalIsCertain(t *testing.T) {
	t.Parallel()
	for _, refusal := range []struct {
		code int
		text string   // of the server
		is   error    // doclock's name for it
		says []string // beside it
	}{
		{20, "not allowed to do that", nil, []string{"not allowed to do that"}},
		{13, "not authorized", nil, []string{"not authorized"}},
		{11000, "E11000 duplicate key", nil, []string{"E11000"}},
		{121, "Document failed validation", nil, []string{"validator", "allow"}},
		{166, "Namespace is a view", nil, []string{"view", "behind it"}},
		{10003, "Cannot change the size of a document in a capped collection", nil, []string{"capped", "another"}},
		{61, "Query for sharded findAndModify must contain the shard key", nil, []string{"sharded", "ShardKey"}},
		{40324, "Unrecognized pipeline stage name", doclock.ErrUnsupportedServer, nil},
		{17276, "Use of undefined variable: NOW", doclock.ErrUnsupportedServer, nil},
	} {
		p := newPlace(t)
		coll, net := p.faulty()
		l := p.locker(coll, relations.Fair())
		before := p.raw()
		for name, ask := range acquires {
			fault := net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any {
				return bson.M{"ok": 0, "code": refusal.code, "errmsg": refusal.text}
			})
			err := ask(p, t.Context(), l, "write")
			wait(t, fault.Fired())
			if err == nil || driverError(err) == nil {
				t.Fatalf("%s: the driver's error is not in %v", name, err)
			}
			p.wantNot(err, doclock.ErrOutcomeUnknown)
			p.wantNot(err, doclock.ErrConflict)
			if refusal.is != nil {
				p.want(err, refusal.is)
			}
			for _, text := range refusal.says {
				if !strings.Contains(err.Error(), text) {
					t.Errorf("%s: the error doesn't say %q: %v", name, text, err)
				}
			}
		}
		p.rest(l)
		if after := p.raw(); !slices.Equal(before, after) {
			t.Errorf("the document was %v, and is %v", before, after)
		}
	}
}

// A confirm that the server refuses leaves the ticket in its place.
func TestServersRefusalOfAConfirmKeepsTheTicket(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair())
	holder := p.try(l, "read")
	ticket := p.enqueue(l, "write")
	p.release(holder)
	net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any { return bson.M{"ok": 0, "code": 13, "errmsg": "not authorized"} })
	_, err := ticket.Confirm(t.Context())
	if driverError(err) == nil {
		t.Errorf("the driver's error is not in %v", err)
	}
	p.wantNot(err, doclock.ErrOutcomeUnknown)
	lease, err := ticket.Confirm(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p.wantEntries(lease)
}

// A waiting Acquire that the server refuses removes its entry.
func TestServersRefusalOfAConfirmEndsAcquireAndItsEntry(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair())
	holder := p.try(p.locker(p.coll, relations.Fair()), "read")
	call := acquire(t, p.bounded(), l, "write")
	p.waiting("write")
	net.ArmRewrite(faultnet.Refuse, "findAndModify", func(bson.Raw) any { return bson.M{"ok": 0, "code": 13, "errmsg": "not authorized"} })
	_, err := call.wait()
	if driverError(err) == nil {
		t.Errorf("the driver's error is not in %v", err)
	}
	p.rest(l)
	p.wantEntries(holder)
}

// If the driver's retry repeats a command, the server answers with the stored,
// whole document without a projection. It has no clock: a conflict names the
// holders without a time.
func TestStoredReplyOfARetriedCommand(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	coll, net := p.faulty()
	l := p.locker(coll, relations.Fair())
	stored := func(bson.Raw) any { return bson.D{{Key: "value", Value: p.raw()}, {Key: "ok", Value: 1}} }

	net.ArmRewrite(faultnet.Rewrite, "findAndModify", stored)
	var doc bson.M
	lease := p.try(l, "write", doclock.Into(&doc))
	p.wantEntries(lease)
	if doc["name"] != "flowers" || doc["lock"] != nil {
		t.Errorf("the document is %v", doc)
	}
	net.ArmRewrite(faultnet.Rewrite, "findAndModify", stored)
	_, err := l.TryAcquire(t.Context(), flowers, "write")
	c := p.conflict(err)
	if len(c.Holders) != 1 || c.Holders[0].ID != lease.ID() || c.Holders[0].Remaining != 0 || c.RetryAfter != 0 {
		t.Errorf("the conflict is %+v", c)
	}
	p.release(lease)
}
