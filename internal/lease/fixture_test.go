package lease

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/attempt"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
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

var errRefused = errors.New("refused")

// unconnected is an engine whose server is nowhere: what is pure of it works.
func unconnected(tb testing.TB, adjust ...func(*engine.Config)) *engine.Engine {
	tb.Helper()
	client, err := mongo.Connect()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = client.Disconnect(context.Background()) })
	cfg := engine.Config{Terms: engine.Terms{TTL: ttl}, Tolerance: engine.DefaultTolerance, Field: engine.DefaultField}
	for _, a := range adjust {
		a(&cfg)
	}
	e, err := engine.New(client.Database("none").Collection("none"), relations.WritePreferring(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

// virtual runs a test in virtual time.
func virtual(t *testing.T, test func(*rig), adjust ...func(*engine.Config)) {
	t.Helper()
	e := unconnected(t, adjust...) // its connections are outside of the bubble
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		e.Clock = func() engine.Reading {
			return engine.Reading{Mono: time.Hour + time.Since(begun), Wall: time.Now().Round(0)}
		}
		t.Cleanup(func() { time.Sleep(time.Hour) }) // whatever is under way ends
		test(newRig(t, e))
	})
}

func newRig(tb testing.TB, e *engine.Engine) *rig {
	r := &rig{TB: tb, server: &server{engine: e, entries: map[uuid.UUID]*entry{}}, ops: &attempt.Group{}}
	r.Leases = NewLeases(e, r.ops, r, nil)
	r.commands = r.server
	return r
}

// grant has an entry stand in the document with this _id.
func (r *rig) grant(id int, tag string) engine.Grant { return r.grantBy(id, tag, engine.Terms{}) }

// grantBy is grant by terms.
func (r *rig) grantBy(id int, tag string, terms engine.Terms) engine.Grant {
	own := engine.Entry{Tag: tag, ID: uuid.New(), Seq: int64(id), Fence: int64(id)}
	if terms.Least > 0 {
		own.Until = time.Now().Add(terms.Least + r.engine.Tolerance)
	}
	img := &engine.Image{
		ID:   bson.RawValue{Type: bson.TypeInt32, Value: binary.LittleEndian.AppendUint32(nil, uint32(id))},
		Lock: engine.Lock{Fence: own.Fence, Entries: []engine.Entry{own}},
	}
	g := r.engine.Grant(img, engine.Request{Tag: tag, ID: own.ID, Terms: terms})
	r.server.mu.Lock()
	defer r.server.mu.Unlock()
	r.server.entries[own.ID] = &entry{document: id, expires: time.Now().Add(g.TTL + r.engine.Tolerance)}
	return g
}

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

// loss is the error of a loss, as the rig makes it.
type loss struct{ Loss }

func (l *loss) Error() string        { return "lost: " + string(l.Reason) }
func (l *loss) Is(target error) bool { return target == doclock.ErrLost }

// wantLost fails unless the error is the loss of a lease for this reason.
func (r *rig) wantLost(what string, err error, want doclock.LossReason) {
	r.Helper()
	var l *loss
	if !errors.As(err, &l) || l.Reason != want {
		r.Errorf("%s: %v, want a loss: %s", what, err, want)
	}
}

// Next, Ended, Lost and Refused make the rig the Locker of its holds, without waiters.

func (r *rig) Next(engine.Grant) *engine.Successor { return nil }

func (r *rig) Ended(e Ending) {
	for _, u := range e.Unanswered {
		r.unanswered = append(r.unanswered, u.Request)
	}
}

func (r *rig) Lost(l Loss) error { return &loss{l} }

func (r *rig) Refused(*engine.Image, engine.Grant, string) error { return errRefused }

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

func (s *somebody) Next(engine.Grant) *engine.Successor { return &engine.Successor{} }

func (s *somebody) Ended(e Ending) {
	s.rig.Ended(e)
	switch e.How {
	case HandedOver:
		s.answers++
	case Released:
		s.released++
	}
}
