package engine

import (
	"testing"
	"time"

	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
)

// Rule 24, as far as the engine alone can show it.

// Downgrade matches the id and the fencing token. Without it a late acquire
// brings the id back after another holder, and a late downgrade takes that
// entry.
func TestRule24DowngradeMatchesIDAndFence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Exclusive())
	a := p.acquire(ann, "write", Granted)
	w.at(held)
	b := p.acquire(bob, "write", Granted)
	p.release(b, Released)
	p.acquire(ann, "write", Granted) // the duplicate of ann's acquire
	p.downgrade(a, 1, "write", cid, Lost)
}

// The new entry is judged as any arrival, beside held entries. Without it a
// downgrade lets itself in beside a holder that the new tag excludes.
func TestRule24DowngradeIsJudged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.acquire(ann, "read", Granted)
	b := p.acquire(bob, "read", Granted)
	p.downgrade(a, 1, "write", cid, Conflict)
	w.at(held) // bob's lease is over
	p.downgrade(a, 2, "write", cid, Granted)
	p.renew(b, Lost)
}

// Waiting entries count, and the new one never waits.
func TestRule24DowngradeNeverWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.acquire(ann, "write", Granted)
	b := p.acquire(bob, "write", Waiting)
	p.downgrade(a, 1, "read", cid, Conflict)
	p.release(a, Released)
	p.confirm(b, Granted)
}

// The new entry counts against `allow` beside the others, without the own one.
func TestRule24DowngradeCountsAgainstAllow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Semaphore(2))
	a := p.acquire(ann, "slot", Granted)
	p.acquire(bob, "slot", Granted)
	p.try(cid, "slot", Conflict)
	p.downgrade(a, 1, "slot", dan, Granted)
	p.try(cid, "slot", Conflict)
}

// Unknown tags are respected, and pruned once they have expired.
func TestRule24DowngradeRespectsUnknownTags(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.acquire(ann, "write", Granted)
	w.Change(bson.M{"$set": bson.M{"lock.tags.other": bson.A{bson.M{"id": binaryID(bob), "fence": n0, "expires": epoch.Add(second)}}}})
	p.downgrade(a, 1, "read", cid, Conflict)
	w.at(second)
	p.downgrade(a, 2, "read", cid, Granted)
	w.is(stored{fence: n0 + 1000, tags: rows{"read": {{id: cid, seq: n0 + 1000, fence: n0 + 1000, since: second, expires: second + held}}}})
}

// Refused, it leaves the lease as it is. Without it the lock is released by a
// refusal.
func TestRule24RefusalKeepsTheLease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.acquire(ann, "read", Granted)
	p.acquire(bob, "read", Granted)
	p.downgrade(a, 1, "write", cid, Conflict)
	p.renew(a, Renewed)
	p.release(a, Released)
}

// A refusal writes the number down. Without it the first attempt is late, the
// second is refused, the holder goes on under its old tag, and the first is
// executed: others are let in beside a valid lease.
func TestRule24RefusalIsNumbered(t *testing.T) {
	t.Parallel()
	bothWays(t, func(w *world, increment any) {
		p := w.peer(relations.Fair())
		a := p.acquire(ann, "read", Granted)
		b := p.acquire(bob, "read", Granted)
		p.downgrade(a, 1, "write", cid, Conflict)
		p.release(b, Released)
		p.downgrade(a, 1, "write", cid, Conflict) // the first attempt
		p.write(a, increment, 2, Applied)
		p.downgrade(a, 1, "write", cid, Conflict) // and one that is later still
		p.downgrade(a, 3, "write", dan, Granted)
		w.counts(1)
	})
}

// It waits for `until`. Without it others are let in before the time of
// HoldAtLeast, or beside a first user whose lease is valid.
func TestRule24DowngradeWaitsForUntil(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.granted(Request{Tag: "write", ID: ann, Terms: Terms{Least: second}}, Granted)
	w.at(second + extra - time.Millisecond)
	p.downgrade(a, 1, "read", bob, Conflict)
	w.at(second + extra)
	p.downgrade(a, 2, "read", bob, Granted)

	other := newWorld(t, hello())
	p = other.peer(relations.Fair())
	k := p.detach(p.acquire(ann, "write", Granted), Detached)
	p.resume(k, bob)
	last := p.resume(k, cid)
	p.downgrade(last, 1, "read", dan, Conflict)
	other.at(held)
	p.downgrade(last, 2, "read", dan, Granted)
	p.gone(k) // the new entry has no key
}

// An expiry of the new entry moves forward only (rule 2).
func TestRule24RepeatNeverShortens(t *testing.T) {
	t.Parallel()
	w := newWorld(t, hello())
	p := w.peer(relations.Fair())
	a := p.acquire(ann, "write", Granted)
	w.at(2 * second)
	p.downgrade(a, 1, "read", bob, Granted)
	w.at(second)
	p.downgrade(a, 1, "read", bob, Granted)
	w.is(stored{fence: n0 + 2000, tags: rows{"read": {{id: bob, seq: n0 + 2000, fence: n0 + 2000, since: 2 * second, expires: 2*second + held}}}})
}
