package docs_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/writelock"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
)

// These are the recipes of errors.md that no program in examples has. The tests run them on a server in memory.

func status(err error) int {
	switch {
	case err == nil:
		return http.StatusOK
	case errors.Is(err, doclock.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, doclock.ErrInvalidArgument), errors.Is(err, doclock.ErrInTransaction),
		errors.Is(err, doclock.ErrForeignLock), errors.Is(err, doclock.ErrUnsupportedServer):
		return http.StatusInternalServerError // a bug or the set-up: it would fail again
	case errors.Is(err, doclock.ErrConflict):
		return http.StatusLocked
	case errors.Is(err, doclock.ErrNotAcquired): // nothing ran: the request may come again
		return http.StatusServiceUnavailable
	}
	return http.StatusInternalServerError
}

func inTransaction(ctx context.Context, lease doclock.Lease, accounts *mongo.Collection, change bson.M) error {
	session, err := accounts.Database().Client().StartSession()
	if err != nil {
		return err
	}
	defer session.EndSession(ctx)
	_, err = session.WithTransaction(ctx, func(ctx context.Context) (any, error) {
		written, err := accounts.UpdateOne(ctx, lease.Guard(), change)
		if err == nil && written.MatchedCount == 0 {
			err = errors.New("the lock is lost: nothing is written")
		}
		return nil, err
	})
	return err
}

// Each answer has a status of its own.
func TestErrorsOfAnAcquire(t *testing.T) {
	mem := locktest.New(t)
	locks, err := writelock.New(mem.Collection("orders", bson.M{"_id": "A-17"}))
	must(t, err)
	try := func(id string) error {
		_, err := locks.TryAcquire(t.Context(), doclock.ID(id))
		return err
	}
	free, held, absent := try("A-17"), try("A-17"), try("B-02")
	mem.Fail(1, mongo.CommandError{Code: 13, Name: "Unauthorized", Message: "not authorized"})
	for err, want := range map[error]int{free: 200, held: 423, absent: 404, try("A-17"): 503, errors.New("other"): 500} {
		if got := status(err); got != want {
			t.Errorf("%d, want %d: %v", got, want, err)
		}
	}
}

// A transaction under the guard writes while the lock is held, and nothing afterwards. A renewal waits for its end.
func TestErrorsInATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mem := locktest.New(t, locktest.ReplicaSet())
		accounts := mem.Collection("accounts", bson.M{"_id": "ann", "balance": 10})
		locks, err := writelock.New(accounts)
		must(t, err)
		lease, err := locks.Acquire(t.Context(), doclock.ID("ann"))
		must(t, err)
		change := bson.M{"$inc": bson.M{"balance": 5}}
		must(t, inTransaction(t.Context(), lease, accounts, change))

		session, err := mem.Client().StartSession()
		must(t, err)
		must(t, session.StartTransaction())
		_, err = accounts.UpdateOne(mongo.NewSessionContext(t.Context(), session), lease.Guard(), change)
		must(t, err)
		time.Sleep(time.Second) // a renewal in the same millisecond would change nothing
		committed := make(chan error, 1)
		time.AfterFunc(100*time.Millisecond, func() { committed <- session.CommitTransaction(t.Context()) })
		began := time.Now()
		must(t, lease.Renew(t.Context()))
		if waited := time.Since(began); waited != 100*time.Millisecond {
			t.Errorf("a renewal waited for %v", waited)
		}
		must(t, <-committed)

		must(t, mem.Lose(lease))
		if err := inTransaction(t.Context(), lease, accounts, change); err == nil || !strings.Contains(err.Error(), "the lock is lost") {
			t.Error(err)
		}
		var account struct{ Balance int }
		must(t, accounts.FindOne(t.Context(), bson.M{"_id": "ann"}).Decode(&account))
		if account.Balance != 20 {
			t.Errorf("the balance is %d", account.Balance)
		}
	})
}
