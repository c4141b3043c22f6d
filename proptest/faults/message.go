package faults

import (
	"context"
	"fmt"
	"reflect"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/proptest/tally"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

const (
	storedImage  = "retried command answered with its stored image"
	cutOff       = "connection reset in the middle of a request"
	readsStored  = "a stored image, whole and without a clock, gives the same result as the projected one"
	survivesACut = "a command that was cut off is repeated, and done once"
)

// Messages uses the two faults of messages that the hammer can't time: a stored
// image, which must belong to the command that it answers, and a reset in the
// middle of a request. n times for each operation.
func Messages(ctx context.Context, db *mongo.Database, uri string, n int, t *tally.Tally) error {
	st, err := newStage(db, uri)
	if err != nil {
		return err
	}
	defer st.close()
	for range n {
		for _, fault := range []func(context.Context, *stage, *tally.Tally) error{storedImages, cuts} {
			if err := fault(ctx, st, t); err != nil {
				return err
			}
		}
	}
	return nil
}

// storedImages answers an acquire, a confirm and a release with the whole
// document, as a server does if it finds a retried command in its history.
func storedImages(ctx context.Context, st *stage, t *tally.Tally) error {
	s, err := st.scene(ctx)
	if err != nil {
		return err
	}
	var before, doc bson.M
	if err := s.other.FindOne(ctx, s.filter()).Decode(&before); err != nil {
		return err
	}
	after := func() any {
		var whole bson.Raw
		_ = s.other.FindOne(ctx, s.filter()).Decode(&whole) // no other client uses the document
		return whole
	}
	st.storeNext(after)
	reader, err := s.locks.TryAcquire(ctx, s.filter(), "read", doclock.Into(&doc))
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	t.Checked(readsStored, 1)
	if !reflect.DeepEqual(doc, before) { // compared as values, because the fields of a bson.M have no order
		t.Violated(readsStored, "the document as of the grant is %v, want %v", doc, before)
	}

	st.storeNext(after)
	ticket, err := s.locks.Enqueue(ctx, s.filter(), "write")
	if err != nil {
		return fmt.Errorf("enqueue: %w", err)
	}
	t.Checked(readsStored, 1)
	if ticket.Granted() {
		t.Violated(readsStored, "a writer is granted beside a reader")
	}

	held := after()
	st.storeNext(func() any { return held })
	if err := reader.Release(ctx); err != nil {
		t.Violated(readsStored, "release: %v", err)
	}
	st.storeNext(after)
	writer, err := ticket.Confirm(ctx)
	if err != nil {
		return fmt.Errorf("confirm: %w", err)
	}
	t.Checked(readsStored, 2)
	if err := writer.UpdateAndRelease(ctx, increment); err != nil {
		t.Violated(readsStored, "the lease of a stored image: %v", err)
	}
	t.Fired(storedImage, 4)
	return s.locks.Close(ctx)
}

// storeNext answers the next findAndModify with a whole document.
func (s *stage) storeNext(whole func() any) {
	s.net.ArmRewrite(faultnet.Rewrite, "findAndModify", func(bson.Raw) any {
		return bson.D{{Key: "ok", Value: 1}, {Key: "value", Value: whole()}}
	})
}

func cuts(ctx context.Context, st *stage, t *tally.Tally) error {
	s, err := st.scene(ctx)
	if err != nil {
		return err
	}
	cut := func() {
		st.net.Arm(faultnet.Cut, "findAndModify")
		t.Fired(cutOff, 1)
		t.Checked(survivesACut, 1)
	}
	cut()
	lease, err := s.locks.TryAcquire(ctx, s.filter(), "write")
	if err != nil {
		return fmt.Errorf("acquire: %w", err)
	}
	for name, operation := range map[string]func() error{
		"renew":  func() error { return lease.Renew(ctx) },
		"update": func() error { return lease.Update(ctx, increment) },
	} {
		cut()
		if err := operation(); err != nil {
			t.Violated(survivesACut, "%s: %v", name, err)
		}
	}
	cut()
	if err := lease.Release(ctx); err != nil {
		t.Violated(survivesACut, "release: %v", err)
	}
	doc, err := s.stored(ctx)
	if err != nil {
		return err
	}
	if doc.Count != 1 || len(doc.entries("swept")) != 0 {
		t.Violated(survivesACut, "left %v", doc)
	}
	return s.locks.Close(ctx)
}
