package multilock_test

import (
	"math"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Tests of numbers and times at the ends of their range.

// serverAt sets the server's clock to a time.
func (p *place) serverAt(t time.Time) { p.mem.Advance(time.Until(t)) }

// A fence is the server's time in milliseconds. At a time that makes none, nothing is
// written, and the error names the clock.
func TestServersClockAtTheEnds(t *testing.T) {
	t.Parallel()
	for at, granted := range map[string]bool{
		"1800-01-01T00:00:00Z": false, "1969-12-31T23:59:50Z": false, "1970-01-01T00:00:00Z": false,
		"1970-01-01T00:00:00.001Z": true, "2038-01-19T03:14:08Z": true, "2290-01-01T00:00:00Z": true,
	} {
		virtually(t, at, func(p *place) {
			when, err := time.Parse(time.RFC3339, at)
			must(p, err)
			p.serverAt(when)
			a, b := p.plain(relations.Fair()), p.plain(relations.Fair())
			if granted {
				lease := p.try(a, "write")
				p.want(errOf(b.TryAcquire(p.Context(), flowers, "write")), doclock.ErrConflict)
				must(p, lease.Renew(p.Context()))
				p.release(lease)
				p.release(p.try(b, "write"))
				return
			}
			for name, err := range map[string]error{
				"TryAcquire": errOf(a.TryAcquire(p.Context(), flowers, "write")),
				"Acquire":    errOf(a.Acquire(p.Context(), flowers, "write")),
				"Enqueue":    errOf(a.Enqueue(p.Context(), flowers, "write")),
			} {
				fault{doclock.ErrUnsupportedServer, []string{"clock", at[:10]}}.check(p, name, err)
				p.want(err, doclock.ErrNotAcquired)
			}
			if n, err := p.coll.CountDocuments(p.Context(), bson.M{"lock": bson.M{"$exists": true}}); n != 0 || err != nil {
				p.Errorf("%d locks were written, %v", n, err)
			}
		})
	}
}

// The last fence is given out, and then nothing that needs another one is written. What
// needs none goes on.
func TestFencesThatHaveRunOut(t *testing.T) {
	virtual(t, func(p *place) {
		must(p, errOf(p.coll.UpdateOne(p.Context(), flowers, bson.M{"$set": bson.M{"lock": bson.M{"fence": int64(1<<53 - 2)}}})))
		l := p.plain(relations.WritePreferring())
		lease := p.try(l, "write")
		if lease.Fence() != 1<<53-1 {
			p.Errorf("the last fence is %d", lease.Fence())
		}
		must(p, lease.Renew(p.Context()))
		must(p, lease.Update(p.Context(), bson.M{"$inc": bson.M{"total": 1}}))
		foreign := fault{doclock.ErrForeignLock, []string{"9007199254740991", "last"}}
		refused := func(name string, err error) {
			p.Helper()
			foreign.check(p, name, err)
			p.wantEntries(lease)
		}
		refused("TryAcquire", errOf(l.TryAcquire(p.Context(), flowers, "read")))
		refused("Acquire", errOf(l.Acquire(p.Context(), flowers, "write")))
		if _, err := lease.Downgrade(p.Context(), "read"); err == nil {
			p.Error("downgraded")
		}
		p.wantEntries(lease)
		must(p, lease.Err())
		token := p.detach(lease)
		foreign.check(p, "Resume", errOf(l.Resume(p.Context(), flowers, token)))
		must(p, l.Touch(p.Context(), flowers, token))
		if e := p.entries("write"); len(e) != 1 || !e[0].Detached {
			p.Errorf("the entry is %+v", e)
		}
	})
}

// An expiry that somebody has damaged says nothing good of a lease: after a batch of
// unknown outcome a read decides, and others have been let in.
func TestADamagedExpiryRenewsNothing(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]bson.M{
		"absent":      {"$unset": bson.M{"lock.tags.write.0.expires": 1}},
		"null":        {"$set": bson.M{"lock.tags.write.0.expires": nil}},
		"a text":      {"$set": bson.M{"lock.tags.write.0.expires": "2026-01-01"}},
		"year 1":      {"$set": bson.M{"lock.tags.write.0.expires": time.Date(1, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"the lowest":  {"$set": bson.M{"lock.tags.write.0.expires": bson.DateTime(math.MinInt64)}},
		"the highest": {"$set": bson.M{"lock.tags.write.0.expires": bson.DateTime(math.MaxInt64)}},
	} {
		virtually(t, name, func(p *place) {
			a, b := p.locker(p.coll, relations.Exclusive(), doclock.TTL(10*time.Second)), p.locker(p.coll, relations.Exclusive())
			first := p.try(a, "write")
			second, err := a.TryAcquire(p.Context(), doclock.ID(2), "write")
			must(p, err)
			first.KeepAlive(p.Context())
			second.KeepAlive(p.Context())
			must(p, errOf(p.coll.UpdateOne(p.Context(), flowers, change)))
			p.mem.LoseRequests(1000, locktest.Renewals)
			time.Sleep(4 * time.Second) // the request of one renewal is lost
			theirs, err := b.TryAcquire(p.Context(), flowers, "write")
			if (err == nil) == (name == "the highest") {
				p.Errorf("others: %v", err)
			}
			time.Sleep(7 * time.Second)
			p.mem.LoseRequests(0)
			if left := first.Remaining(); err == nil && left > 0 || left > 10*time.Second {
				p.Errorf("others have the lock: %v, and the lease has %v left", err == nil, left)
			}
			if theirs != nil {
				p.release(theirs)
			}
			_ = first.Release(p.Context())
			p.release(second)
		})
	}
}
