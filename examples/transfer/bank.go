package main

import (
	"context"
	"errors"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
)

type account struct {
	Balance int
	Pending *payment           // that this account sends, and that is not over
	Got     map[string]payment // the last payment from each other account
}

type payment struct {
	ID, To bson.ObjectID
	Amount int
}

var (
	errTooLittle = errors.New("there is too little in the account")
	errSame      = errors.New("the two accounts are the same")
)

// transfer moves an amount between two different accounts. It first writes down
// the payment in the sender's account. So if its process dies, or loses a lock,
// between two writes, the next transfer of the sender finishes the payment. After
// an error other than ErrNotAcquired and errTooLittle the payment may be pending.
func transfer(ctx context.Context, locks *writelock.Locker, from, to bson.ObjectID, amount int) error {
	if from == to { // one lease, and one balance that is read twice
		return errSame
	}
	p := payment{ID: bson.NewObjectID(), To: to, Amount: amount}
	for {
		pending, err := pay(ctx, locks, from, p, false)
		if err != nil || pending == nil {
			return err
		}
		if _, err := pay(ctx, locks, from, *pending, true); err != nil {
			return err
		}
	}
}

// pay does a payment, or what is left of it. If another one is pending, it returns
// that one, and does nothing. One that was begun may be over by now: others finish it, too.
func pay(ctx context.Context, locks *writelock.Locker, from bson.ObjectID, p payment, begun bool) (pending *payment, err error) {
	var sender, receiver account
	err = multilock.DoAll(ctx, func(ctx context.Context, leases multilock.Leases) error {
		switch {
		case begun && (sender.Pending == nil || sender.Pending.ID != p.ID):
			return nil
		case sender.Pending != nil && sender.Pending.ID != p.ID:
			pending = sender.Pending
			return nil
		case sender.Pending == nil && sender.Balance < p.Amount:
			return errTooLittle
		}
		set := bson.M{"balance": sender.Balance - p.Amount, "pending": p}
		if sender.Pending == nil {
			if err := leases[0].Update(ctx, bson.M{"$set": set}); err != nil {
				return err
			}
		}
		if receiver.Got[from.Hex()].ID != p.ID {
			set = bson.M{"balance": receiver.Balance + p.Amount, "got." + from.Hex(): p}
			if err := leases[1].Update(ctx, bson.M{"$set": set}); err != nil {
				return err
			}
		}
		return leases[0].Update(ctx, bson.M{"$unset": bson.M{"pending": 1}})
	}, locks.Want(doclock.ID(from), doclock.Into(&sender)), locks.Want(doclock.ID(p.To), doclock.Into(&receiver)))
	return pending, err
}
