package scenarios

import (
	"errors"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/mongotest"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

const (
	restarted   = "server killed (-9) and restarted"
	survives    = "a lock survives the server's death, and excludes others after it"
	countsRight = "over the server's death each guarded write is applied at most once, and always if reported applied"
	fencesGoOn  = "fences go on increasing over the server's death"
)

// killedServer kills a server under a holder that is writing, restarts it, and checks the
// lock and the writes.
func killedServer(t testing.TB, n int, counts *tally.Tally) {
	c, ctx := counting{t, counts}, t.Context()
	server := mongotest.Private(t)
	docs := server.Client().Database("restart").Collection("docs")
	locks, err := multilock.New(docs, relations.WritePreferring(), doclock.TTL(time.Minute*2), doclock.AttemptTimeout(10*time.Second))
	c.must(err)
	_, err = docs.InsertOne(ctx, bson.M{"_id": 1, "count": 0})
	c.must(err)
	filter := bson.M{"_id": 1}
	var sure, maybe int
	var last int64
	for range n {
		lease, err := locks.Acquire(ctx, filter, "write")
		c.must(err)
		c.check(fencesGoOn, lease.Fence() > last, "%d after %d", lease.Fence(), last)
		last = lease.Fence()

		back := make(chan struct{})
		go func() { // while the holder works
			defer close(back)
			server.Kill()
			server.Restart()
		}()
		c.Fired(restarted, 1)
		for writing := true; writing; {
			select {
			case <-back:
				writing = false
			default:
			}
			switch err := lease.Update(ctx, increment); { // repeated until the server is back
			case err == nil:
				sure++
			case errors.Is(err, doclock.ErrOutcomeUnknown):
				maybe++
			default:
				t.Fatal(err)
			}
		}

		_, err = locks.TryAcquire(ctx, filter, "read")
		c.check(survives, errors.Is(err, doclock.ErrConflict), "a reader beside the writer: %v", err)
		err = errors.Join(lease.Renew(ctx), lease.Release(ctx))
		c.check(survives, err == nil, "renew and release: %v", err)
		var doc stored
		c.must(docs.FindOne(ctx, filter).Decode(&doc))
		c.check(countsRight, sure <= doc.Count && doc.Count <= sure+maybe, "count %d after %d writes that were applied and %d that may be", doc.Count, sure, maybe)
	}
	c.must(locks.Close(ctx))
}
