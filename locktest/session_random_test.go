package locktest_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/doclock/doclock/locktest"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/event"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
	"pgregory.net/rapid"
)

// place is one of the documents: two in each of two collections.
type place struct {
	coll string
	id   int
}

var places = []place{{"orders", 1}, {"orders", 2}, {"parts", 1}, {"parts", 2}}

// snapshots is what snapshot isolation promises: the committed documents, how often each was written, and who has which open.
type snapshots struct {
	t         *rapid.T
	mem       *locktest.Server
	client    *mongo.Client
	committed map[place]int // those that are there
	writes    map[place]int
	open      []*isolated
	waiting   map[place][]chan error // writes outside of transactions
}

// isolated is a transaction and what it is to see.
type isolated struct {
	ctx     context.Context
	session *mongo.Session
	sees    map[place]int // nil before its first command
	since   map[place]int
	wrote   map[place]bool
	ended   bool
}

func (s *snapshots) collection(p place) *mongo.Collection {
	return s.client.Database("test").Collection(p.coll)
}

func (s *snapshots) expect(what string, got, want any) {
	if fmt.Sprint(got) != fmt.Sprint(want) {
		s.t.Fatalf("%s: %v, not %v", what, got, want)
	}
}

// read is a document's number; -1 if it isn't there.
func (s *snapshots) read(ctx context.Context, p place) int {
	stored := struct{ N int }{-1}
	if err := s.collection(p).FindOne(ctx, bson.M{"_id": p.id}).Decode(&stored); err != nil && err != mongo.ErrNoDocuments {
		s.t.Fatal(err)
	}
	return stored.N
}

func number(of map[place]int, p place) int {
	if n, there := of[p]; there {
		return n
	}
	return -1
}

// change writes a document: it adds to the number, there or not, or deletes it.
func (s *snapshots) change(ctx context.Context, p place, by int) (err error) {
	if by == 0 {
		_, err = s.collection(p).DeleteOne(ctx, bson.M{"_id": p.id})
	} else {
		_, err = s.collection(p).UpdateOne(ctx, bson.M{"_id": p.id}, bson.M{"$inc": bson.M{"n": by}}, options.UpdateOne().SetUpsert(true))
	}
	return err
}

func apply(to map[place]int, p place, by int) {
	if to[p] += by; by == 0 {
		delete(to, p)
	}
}

func (s *snapshots) step() {
	t := s.t
	p := rapid.SampledFrom(places).Draw(t, "place")
	switch action := rapid.SampledFrom([]string{"begin", "read", "write", "write", "delete", "commit", "abort", "plain write", "plain read", "wait", "step down"}).Draw(t, "action"); action {
	case "begin":
		if len(s.open) < 3 {
			session, err := s.client.StartSession()
			s.expect("a session", err, nil)
			s.expect("begin", session.StartTransaction(), nil)
			s.open = append(s.open, &isolated{ctx: mongo.NewSessionContext(context.Background(), session), session: session, wrote: map[place]bool{}})
		}
	case "plain read":
		s.expect("a read outside", s.read(context.Background(), p), number(s.committed, p))
	case "plain write":
		ended := make(chan error, 1)
		go func() { ended <- s.change(context.Background(), p, 1) }()
		s.waiting[p] = append(s.waiting[p], ended)
		s.checkWaits()
	case "wait", "step down": // both end all transactions that have begun
		if rapid.IntRange(0, 4).Draw(t, "long") > 0 {
			return
		}
		if action == "wait" || s.mem.Primary() == "" {
			time.Sleep(2 * time.Minute)
		} else {
			s.mem.StepDown()
			time.Sleep(2 * time.Second)
		}
		for _, one := range s.open {
			one.ended = one.ended || one.sees != nil
		}
		s.checkWaits()
	default:
		if len(s.open) > 0 {
			i := rapid.IntRange(0, len(s.open)-1).Draw(t, "transaction")
			s.inside(s.open[i], action, p)
			if action == "commit" || action == "abort" {
				s.open = slices.Delete(s.open, i, i+1)
			}
		}
	}
}

// inside is a command of a transaction.
func (s *snapshots) inside(one *isolated, action string, p place) {
	if one.sees == nil && action != "commit" && action != "abort" {
		one.sees, one.since = maps.Clone(s.committed), maps.Clone(s.writes)
	}
	by := 1
	switch action {
	case "commit":
		want := 0
		if one.ended {
			want = 251
		}
		if (len(one.wrote) > 0 || s.mem.Primary() != "") && rapid.Bool().Draw(s.t, "lost") {
			s.mem.LoseReplies(1) // the driver sends it again; another router knows the outcome of what has written
		}
		s.expect("commit", code(one.session.CommitTransaction(one.ctx)), want)
		s.mem.LoseReplies(0)
		s.end(one, true)
	case "abort":
		s.expect("abort", one.session.AbortTransaction(one.ctx), nil)
		s.end(one, false)
	case "read":
		if one.ended {
			s.expect("a read in an aborted transaction", code(s.collection(p).FindOne(one.ctx, bson.M{}).Err()), 251)
		} else {
			s.expect("a read in a transaction", s.read(one.ctx, p), number(one.sees, p))
		}
	case "delete":
		by = 0
		fallthrough
	default:
		err := s.change(one.ctx, p, by)
		switch _, there := one.sees[p]; {
		case one.ended:
			s.expect("a write in an aborted transaction", code(err), 251)
		case by == 0 && !there:
			s.expect("a deletion of nothing", err, nil)
		case s.writer(p, one) || one.since[p] != s.writes[p]:
			s.expect("a conflict", conflicts(err), true)
			s.end(one, false)
		default:
			s.expect("a write in a transaction", err, nil)
			apply(one.sees, p, by)
			one.wrote[p] = true
		}
	}
}

// writer reports whether another transaction that is open has written a document.
func (s *snapshots) writer(p place, but *isolated) bool {
	return slices.ContainsFunc(s.open, func(other *isolated) bool { return other != but && !other.ended && other.wrote[p] })
}

// end ends a transaction. The writes that have waited for it go on.
func (s *snapshots) end(one *isolated, commits bool) {
	if !one.ended && commits {
		for p := range one.wrote {
			delete(s.committed, p)
			if n, there := one.sees[p]; there {
				s.committed[p] = n
			}
			s.writes[p]++
		}
	}
	one.ended = true
	s.checkWaits()
}

// checkWaits looks that exactly those writes wait that have to.
func (s *snapshots) checkWaits() {
	synctest.Wait()
	for p, all := range s.waiting {
		for _, ended := range all {
			select {
			case err := <-ended:
				s.expect("a write outside", err, nil)
				s.expect(fmt.Sprintf("a write of %v ended beside a transaction that has written it", p), s.writer(p, nil), false)
				apply(s.committed, p, 1)
				s.writes[p]++
			default:
				s.expect(fmt.Sprintf("a write of %v waits for a transaction", p), s.writer(p, nil), true)
			}
		}
		if !s.writer(p, nil) {
			delete(s.waiting, p)
		}
	}
}

// Random transactions and plain writes of two documents in two collections: each reads its snapshot and its own writes, of two
// that write a document one commits, an aborted one leaves nothing, and a plain write waits for the transaction that has
// written its document, and for no other.
func TestSnapshotIsolation(t *testing.T) {
	onClusters(t, func(t *testing.T, mem *locktest.Server, orders *mongo.Collection) {
		client := mem.Connect(options.Client().SetMonitor(&event.CommandMonitor{Failed: func(_ context.Context, e *event.CommandFailedEvent) {
			if contains(e.Failure, "stepped down") {
				time.Sleep(time.Second) // the driver repeats a write once: it must have heard of the new primary
			}
		}}))
		rapid.Check(struct{ testing.TB }{t}, func(rt *rapid.T) { // a bubble has no Deadline
			check(t, mem.Client().Database("test").Drop(t.Context()))
			for _, coll := range []string{"orders", "parts"} {
				check(t, mem.Client().Database("test").CreateCollection(t.Context(), coll))
			}
			s := &snapshots{rt, mem, client, map[place]int{}, map[place]int{}, nil, map[place][]chan error{}}
			defer func() {
				for _, one := range s.open {
					one.session.EndSession(context.Background())
				}
				synctest.Wait()
			}()
			for range rapid.IntRange(10, 60).Draw(rt, "steps") {
				s.step()
			}
			for len(s.open) > 0 {
				one := s.open[0]
				s.inside(one, "abort", place{})
				s.open = s.open[1:]
				one.session.EndSession(context.Background())
			}
			for _, p := range places {
				s.expect(fmt.Sprint("in the end ", p), s.read(context.Background(), p), number(s.committed, p))
			}
		})
	})
}
