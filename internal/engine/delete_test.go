package engine

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

func TestDelete(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	p.once("delete", func() {
		if got, err := p.Delete(t.Context(), g); got.Outcome != Released || err != nil {
			t.Errorf("%v, %v", got.Outcome, err)
		}
	})
	if err := w.Hand.FindOne(t.Context(), bson.M{"_id": w.ID}).Err(); !errors.Is(err, mongo.ErrNoDocuments) {
		t.Errorf("the document is there: %v", err)
	}
	if got, err := p.Delete(t.Context(), g); got.Outcome != Lost || err != nil { // the repeat
		t.Errorf("of a missing document: %v, %v", got.Outcome, err)
	}
}

// Rule 1 for a delete: the document of another holder is not deleted, not even
// by the same id.
func TestRule01DeleteMatchesIDAndFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	g := p.acquire(ann, "write", Granted)
	w.at(held)
	next := p.acquire(bob, "write", Granted)
	before := w.Stored()
	stale, other := g, next
	stale.ID, other.ID = bob, cid // with ann's fencing token, and with bob's
	for name, g := range map[string]Grant{"pruned": g, "another fence": stale, "another id": other} {
		if got, err := p.Delete(t.Context(), g); got.Outcome != Lost || err != nil {
			t.Errorf("%s: %v, %v", name, got.Outcome, err)
		}
	}
	if after := w.Stored(); !bytes.Equal(before, after) {
		t.Errorf("made %v of %v", after, before)
	}
}

// DocumentDB's delete passes over a document that is being updated at that
// moment. That is not a loss.
func TestDeleteBesideUpdates(t *testing.T) {
	t.Parallel()
	for range 8 {
		w := newWorld(t, hello())
		p := w.peer(relations.Exclusive())
		g := p.acquire(ann, "write", Granted)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan struct{})
		for range 4 {
			go func() {
				for ctx.Err() == nil {
					_, _ = w.Hand.UpdateOne(context.Background(), bson.M{"_id": w.ID}, bson.M{"$inc": bson.M{"count": 1}})
				}
				done <- struct{}{}
			}()
		}
		for {
			got, err := p.Delete(t.Context(), g)
			if err == nil {
				if got.Outcome != Released {
					t.Errorf("%v, though the lock was held", got.Outcome)
				}
				break
			}
			if AsFailure(err).Cause != CauseRace {
				t.Fatal(err)
			}
		}
		cancel()
		for range 4 {
			<-done
		}
	}
}
