package scenarios

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// account is one document.
type account struct {
	ID      int `bson:"_id"`
	Balance int
	Sent    int               // transfers that began here, and are over
	Intent  *transfer         // that began here, and is not over
	Applied map[string]string // the last transfer from an account, by its number, that was applied here
}

// transfer moves money from its first account to the others. No lock makes several
// writes atomic: a process may be killed between two of them. So a transfer first
// writes its intent into its first account. A client that locks an account with an
// intent finishes the transfer first. A write stores a balance that was computed from
// what was read under the lock. It does not increment. So a write that comes late, or
// two holders at a time, change the sum.
type transfer struct {
	ID    string
	Moves []change
}

type change struct{ Account, By int }

func newTransfer(accounts []int, each int) *transfer {
	t := &transfer{ID: uuid.NewString()}
	for _, id := range accounts {
		t.Moves = append(t.Moves, change{id, each})
	}
	t.Moves[0].By = -each * (len(accounts) - 1)
	return t
}

func (t *transfer) from() string { return fmt.Sprint(t.Moves[0].Account) }

// bank is the accounts, as one client sees them.
type bank struct {
	accounts *mongo.Collection
	locks    *multilock.Locker
	careless bool // nothing is locked
	finished int  // other clients' transfers
}

// writes sends an update of the account at a place of a transfer.
type writes func(ctx context.Context, place int, update bson.M) error

// do reads a transfer's accounts under their locks, and calls fn with them. The
// verdict of a write that fails is the error's, too.
func (b *bank) do(ctx context.Context, t *transfer, fn func(context.Context, []account, writes) error) error {
	docs := make([]account, len(t.Moves))
	if b.careless {
		for i, m := range t.Moves {
			if err := b.accounts.FindOne(ctx, doclock.ID(m.Account)).Decode(&docs[i]); err != nil {
				return err
			}
		}
		return fn(ctx, docs, func(ctx context.Context, place int, update bson.M) error {
			_, err := b.accounts.UpdateByID(ctx, docs[place].ID, update)
			return err
		})
	}
	wants := make([]multilock.Want, len(docs))
	for i, m := range t.Moves {
		wants[i] = b.locks.Want(doclock.ID(m.Account), "write", doclock.Into(&docs[i]))
	}
	var unwritten error // DoAll's verdict is on the locks, and hides a write's
	err := multilock.DoAll(ctx, func(ctx context.Context, leases multilock.Leases) error {
		return fn(ctx, docs, func(ctx context.Context, place int, update bson.M) error {
			unwritten = leases[place].Update(ctx, update)
			return unwritten
		})
	}, wants...)
	if err != nil && unwritten != nil {
		return fmt.Errorf("%w: %w", unwritten, err)
	}
	return err
}

// carryOut does a transfer. If another one was left unfinished in one of its
// accounts, that one is finished first.
func (b *bank) carryOut(ctx context.Context, t *transfer) error {
	for {
		var left *transfer
		err := b.do(ctx, t, func(ctx context.Context, docs []account, write writes) error {
			for _, doc := range docs {
				if doc.Intent != nil && !b.careless {
					left = doc.Intent
					return nil
				}
			}
			if err := write(ctx, 0, bson.M{"$set": bson.M{"intent": t}}); err != nil {
				return err
			}
			return t.apply(ctx, docs, write)
		})
		if err != nil || left == nil {
			return err
		}
		if err := b.finish(ctx, left); err != nil {
			return err
		}
	}
}

// finish finishes a transfer whose client has gone, unless somebody else has done
// that.
func (b *bank) finish(ctx context.Context, t *transfer) error {
	return b.do(ctx, t, func(ctx context.Context, docs []account, write writes) error {
		if docs[0].Intent == nil || docs[0].Intent.ID != t.ID {
			return nil
		}
		err := t.apply(ctx, docs, write)
		if err == nil {
			b.finished++
		}
		return err
	})
}

// apply applies what is not applied yet. The first account comes last: its write
// ends the intent. Work takes time, so kills and stops come in the middle of it.
func (t *transfer) apply(ctx context.Context, docs []account, write writes) error {
	const slowest = 5 * time.Millisecond
	for i, m := range t.Moves[1:] {
		if docs[i+1].Applied[t.from()] == t.ID {
			continue
		}
		time.Sleep(rand.N(slowest))
		if err := write(ctx, i+1, bson.M{"$set": bson.M{"balance": docs[i+1].Balance + m.By, "applied." + t.from(): t.ID}}); err != nil {
			return err
		}
	}
	time.Sleep(rand.N(slowest))
	return write(ctx, 0, bson.M{
		"$set":   bson.M{"balance": docs[0].Balance + t.Moves[0].By, "sent": docs[0].Sent + 1},
		"$unset": bson.M{"intent": 1},
	})
}

// sum is all the money, and what the unfinished transfers have still to move.
func sum(docs []account) (total, sent, unfinished int) {
	byID := map[int]account{}
	for _, doc := range docs {
		byID[doc.ID] = doc
		total += doc.Balance
		sent += doc.Sent
	}
	for _, doc := range docs {
		if doc.Intent == nil {
			continue
		}
		unfinished++
		for i, m := range doc.Intent.Moves {
			if i == 0 || byID[m.Account].Applied[doc.Intent.from()] != doc.Intent.ID {
				total += m.By
			}
		}
	}
	return total, sent, unfinished
}
