package lease

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

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
	*Holds
	server *server
	ops    *attempt.Group

	unanswered []engine.Request // the new entries that downgrades have left to the clean-up
}

var errRefused = errors.New("refused")

// Refused and Unanswered make the rig the Downgrades of its holds.
func (r *rig) Refused(*engine.Image, engine.Grant, string) error { return errRefused }

func (r *rig) Unanswered(_ engine.Pin, to engine.Request) {
	r.unanswered = append(r.unanswered, to)
}

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
	r.Holds = NewHolds(e, r.ops, nobody{}, r, nil)
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

func (r *rig) take(id int, tag string) *Handle {
	return r.New(r.grant(id, tag), r.engine.Clocks(), tag == "read")
}

// many takes n write locks, of the documents from 100 on.
func (r *rig) many(n int) []*Handle {
	all := make([]*Handle, n)
	for i := range all {
		all[i] = r.take(100+i, "write")
	}
	return all
}

// keep keeps leases alive until the test ends.
func (r *rig) keep(leases ...*Handle) (kept []context.Context) {
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

func (r *rig) wantFresh(leases ...*Handle) {
	r.Helper()
	for _, h := range leases {
		if left := h.Remaining(); left <= ttl*2/3-ttl/20 {
			r.Errorf("document %d: %v left", h.DocumentID().Int32(), left)
		}
	}
}

// somebody is a wait queue with one waiter. It counts its answers, and the
// releases to nobody.
type somebody struct{ answers, released int }

func (s *somebody) Next(engine.Grant) Successor { return s }
func (s *somebody) Released(engine.Grant)       { s.released++ }
func (s *somebody) Detached(engine.Grant)       {}
func (s *somebody) Request() engine.Successor   { return engine.Successor{} }
func (s *somebody) Answer(engine.Answer)        { s.answers++ }

// nobody is a wait queue without waiters.
type nobody struct{}

func (nobody) Next(engine.Grant) Successor { return nil }
func (nobody) Released(engine.Grant)       {}
func (nobody) Detached(engine.Grant)       {}
