package lease

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/locktest"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// ttl of the leases of these tests.
const ttl = 12 * time.Second

// rig is the holds of a Locker whose commands go to a server in memory. In a
// bubble of testing/synctest all of its time is virtual.
type rig struct {
	testing.TB
	*Leases
	server *server
	ops    *attempt.Group

	unanswered []engine.Request // that have attempts which the clean-up must look after
}

// connected is an engine of a server in memory, and the collection.
func connected(tb testing.TB, adjust ...func(*engine.Config)) (*engine.Engine, *mongo.Collection) {
	tb.Helper()
	cfg := engine.Config{Terms: engine.Terms{TTL: ttl}, Tolerance: engine.DefaultTolerance, Field: engine.DefaultField}
	for _, a := range adjust {
		a(&cfg)
	}
	coll := locktest.New(tb).Collection("documents", doclock.ID(0)) // the driver has found the server
	e, err := engine.New(coll, relations.WritePreferring(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return e, coll
}

// virtual runs a test in virtual time.
func virtual(t *testing.T, test func(*rig), adjust ...func(*engine.Config)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		e, coll := connected(t, adjust...)
		e.Clock = func() engine.Reading {
			return engine.Reading{Mono: time.Hour + time.Since(begun), Wall: time.Now().Round(0)}
		}
		t.Cleanup(func() { time.Sleep(time.Hour) }) // whatever is under way ends
		test(newRig(t, e, coll))
	})
}

func newRig(tb testing.TB, e *engine.Engine, coll *mongo.Collection) *rig {
	r := &rig{TB: tb, server: &server{engine: e, coll: coll}, ops: attempt.NewGroup()}
	r.Leases = NewLeases(e, r.ops, r, nil)
	r.commands = r.server
	return r
}

// grant has an entry stand in a new document with this _id.
func (r *rig) grant(id int, tag string) engine.Grant { return r.grantBy(id, tag, engine.Terms{}) }

// grantBy is grant by terms.
func (r *rig) grantBy(id int, tag string, terms engine.Terms) engine.Grant {
	r.Helper()
	_, err := r.server.coll.ReplaceOne(context.Background(), doclock.ID(int32(id)), bson.D{}, options.Replace().SetUpsert(true))
	if err != nil {
		r.Fatal(err)
	}
	f, err := r.engine.ParseFilter(doclock.ID(int32(id)))
	if err != nil {
		r.Fatal(err)
	}
	request := engine.Request{Tag: tag, ID: uuid.New(), Terms: terms}
	got, err := r.engine.Acquire(context.Background(), f, request)
	if err != nil || got.Outcome != engine.Granted {
		r.Fatal(got.Outcome, err)
	}
	return r.engine.Grant(got.Image, request)
}

// entries are those of a lease's document.
func (r *rig) entries(h *Lease) []engine.Entry {
	r.Helper()
	img, err := r.engine.Read(context.Background(), h.grant.Pin)
	if err != nil {
		r.Fatal(err)
	}
	return img.Lock.Entries
}

// entry is a lease's, or a zero one if it is gone.
func (r *rig) entry(h *Lease) (own engine.Entry) {
	r.Helper()
	for _, e := range r.entries(h) {
		if e.ID == h.ID() {
			own = e
		}
	}
	return own
}

// change changes a lease's document, as somebody else's command does.
func (r *rig) change(h *Lease, update any) {
	r.Helper()
	if _, err := r.server.coll.UpdateByID(context.Background(), h.DocumentID(), update); err != nil {
		r.Fatal(err)
	}
}

// remove takes the entries out.
func (r *rig) remove(h *Lease) { r.change(h, bson.M{"$unset": bson.M{"lock.tags": 1}}) }

func (r *rig) take(id int, tag string) *Lease {
	return r.New(r.grant(id, tag), r.engine.Clocks())
}

// doubted is take by an acquire one of whose attempts may be executed yet.
func (r *rig) doubted(id int, tag string) *Lease {
	g := r.grant(id, tag)
	return r.New(g, r.engine.Clocks(), Unanswered{Request: engine.Request{Tag: tag, ID: g.ID}, Attempts: 1})
}

// wantUnanswered fails unless just the attempts by these ids are left to the clean-up.
func (r *rig) wantUnanswered(want ...uuid.UUID) {
	r.Helper()
	synctest.Wait() // they are, after the verdict
	var ids []uuid.UUID
	for _, to := range r.unanswered {
		ids = append(ids, to.ID)
	}
	if !slices.Equal(ids, want) {
		r.Errorf("the clean-up is of %v, want %v", ids, want)
	}
}

// many takes n write locks, of the documents from 100 on.
func (r *rig) many(n int) []*Lease {
	all := make([]*Lease, n)
	for i := range all {
		all[i] = r.take(100+i, "write")
	}
	return all
}

// keep keeps leases alive until the test ends.
func (r *rig) keep(leases ...*Lease) (kept []context.Context) {
	ctx, cancel := context.WithCancel(context.Background())
	r.Cleanup(cancel)
	for _, h := range leases {
		kept = append(kept, h.KeepAlive(ctx))
	}
	return kept
}

func (r *rig) wantSent(want ...string) {
	r.Helper()
	if sent := r.server.sent(); !slices.Equal(sent, want) {
		r.Errorf("sent %v, want %v", sent, want)
	}
}

func (r *rig) wantFresh(leases ...*Lease) {
	r.Helper()
	for _, h := range leases {
		if left := h.Remaining(); left <= ttl*2/3-ttl/20 {
			r.Errorf("document %d: %v left", h.DocumentID().Int32(), left)
		}
	}
}

// wantLost fails unless the error is the loss of a lease for this reason.
func (r *rig) wantLost(what string, err error, want doclock.LossReason) {
	r.Helper()
	var l *doclock.LostError
	if !errors.As(err, &l) || l.Reason != want {
		r.Errorf("%s: %v, want a loss: %s", what, err, want)
	}
}

// Next and Ended make the rig the Locker of its holds, without waiters.

func (r *rig) Next(engine.Grant) *engine.Successor { return nil }

func (r *rig) Ended(e Ending) {
	for _, u := range e.Unanswered {
		r.unanswered = append(r.unanswered, u.Request)
	}
}

// somebody is the rig with one waiter. It counts the waiter's answers, and the
// releases to nobody.
type somebody struct {
	*rig
	answers, released int
}

func (r *rig) somebody() *somebody {
	s := &somebody{rig: r}
	r.succession = s
	return s
}

func (s *somebody) Next(engine.Grant) *engine.Successor {
	return &engine.Successor{Request: engine.Request{Tag: "write", ID: uuid.New()}}
}

func (s *somebody) Ended(e Ending) {
	s.rig.Ended(e)
	switch e.How {
	case HandedOver:
		s.answers++
	case Released:
		s.released++
	}
}
