package faults

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/internal/engine"
	"github.com/doclock/doclock/internal/faultnet"
	"github.com/doclock/doclock/internal/fixture"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/proptest/tally"
	"github.com/doclock/doclock/relations"
	"github.com/google/uuid"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

const (
	freeIsGranted = "a lock that is free is granted to a waiter within its pause, and the bound"
	refusedRests  = "while nothing changes, waiters ask more and more rarely"
	clockSetBack  = "server's clock set back"
	idBroughtBack = "released id brought back by a late duplicate"
)

// Rules of the waiters. Some have a queue, some count, and one has two
// independent locks.
var ruleSets = []relations.Rules{
	relations.Exclusive(), relations.Fair(), relations.WritePreferring(), relations.ReadPreferring(),
	relations.Semaphore(1), relations.Semaphore(2), relations.Semaphore(3), relations.MultiGranularity(), relations.MultiGranularity(),
	{"a": {"a": {Kind: relations.Cooperative}}, "b": {"b": {Kind: relations.Assertive}}, "c": {"c": {Kind: relations.Assertive, Allow: 1}}},
}

// Waiters lets waiters of one process wait in its wait queue. They differ in
// tag and filter, and are beside holders of their own process and of another
// one; n times, each with other rules. Holders leave one by one, waiters give
// up, the server's clock is set back, and released ids are brought back.
func Waiters(ctx context.Context, db *mongo.Database, uri string, n int, seed uint64, t *tally.Tally) error {
	rng := rand.New(rand.NewPCG(seed, 0))
	for i := range n {
		s := &queueing{rng: rng, tally: t, rules: ruleSets[i%len(ruleSets)], id: uuid.NewString(), net: faultnet.New()}
		if err := s.run(ctx, db, uri); err != nil {
			return fmt.Errorf("waiters, seed %d, run %d: %w", seed, i, err)
		}
	}
	return nil
}

// queueing is one document and its waiters.
type queueing struct {
	rng   *rand.Rand
	tally *tally.Tally
	rules relations.Rules
	id    string
	net   *faultnet.Net
	other *mongo.Collection
	sent  atomic.Int64 // commands of the waiters' process
	ahead atomic.Int64 // of the server's clock, in nanoseconds

	mu      sync.Mutex
	leases  []*doclock.Lease // of both processes
	first   *doclock.Lease   // of the waiters' process, perhaps
	waiting map[string]int   // by tag
	cancels []context.CancelFunc
	all     sync.WaitGroup
}

const (
	here        = "here"
	long, short = time.Hour, 400 * time.Millisecond
	bound       = 5 * time.Second
	quiet       = 300 * time.Millisecond
	mostPolls   = 15 // of one waiter in that time, after an equally long time without changes; it would be 12 if all pauses were the shortest
)

func (s *queueing) now() time.Time { return time.Now().Add(time.Duration(s.ahead.Load())).UTC() }

func (s *queueing) locker(coll *mongo.Collection, owner string, ttl time.Duration) (*multilock.Locker, error) {
	return multilock.New(coll, s.rules, doclock.WaitTTL(long), doclock.ClockTolerance(0), doclock.AttemptTimeout(2*time.Second),
		doclock.Owner(owner), func(cfg *engine.Config) error {
			cfg.TTL, cfg.Now = ttl, s.now // shorter than an option allows
			return nil
		})
}

func (s *queueing) run(ctx context.Context, db *mongo.Database, uri string) error {
	monitor := fixture.Monitor(func(bson.Raw) { s.sent.Add(1) })
	client, err := mongo.Connect(options.Client().ApplyURI(uri).SetDialer(s.net).SetMonitor(monitor).SetRetryWrites(false))
	if err != nil {
		return err
	}
	defer func() { _ = client.Disconnect(context.WithoutCancel(ctx)) }()
	s.other = db.Collection("waiters")
	s.waiting = map[string]int{}
	if _, err := s.other.InsertOne(ctx, bson.M{"_id": s.id, "name": s.id}); err != nil {
		return err
	}
	ours, err := s.locker(client.Database(db.Name()).Collection("waiters"), here, long)
	if err != nil {
		return err
	}
	var others []*multilock.Locker
	for _, ttl := range []time.Duration{long, short} { // the second is like a holder that dies
		l, err := s.locker(s.other, "there", ttl)
		if err != nil {
			return err
		}
		others = append(others, l)
	}
	late := s.net.ArmWhere(faultnet.Repeat, func(name string, _ bson.Raw) bool { return name == "findAndModify" })
	first := []*multilock.Locker{ours, others[0], others[1], others[1]}
	s.rng.Shuffle(len(first), func(i, j int) { first[i], first[j] = first[j], first[i] })
	for _, l := range append(first, ours) {
		s.try(ctx, l, l == ours)
	}
	for range 2 + s.rng.IntN(4) {
		s.wait(ctx, ours)
		time.Sleep(time.Duration(s.rng.IntN(20)) * time.Millisecond)
	}
	for step := 0; !s.over(); step++ {
		if step == 0 && s.rng.IntN(2) == 0 {
			s.ahead.Add(-int64(time.Minute))
			s.tally.Fired(clockSetBack, 1)
			time.Sleep(short) // by the last image, an entry has expired
		}
		if err := s.settle(ctx); err != nil {
			return err
		}
		if step == 0 {
			if err := s.quiet(ctx); err != nil {
				return err
			}
		}
		if step == 2 && late != nil {
			if err := s.bringBack(ctx, late); err != nil {
				return err
			}
			late = nil
		}
		s.leaves(ctx)
	}
	s.net.Disarm()
	s.all.Wait()
	for _, l := range append(others, ours) {
		if err := l.Close(ctx); err != nil {
			return err
		}
	}
	return nil
}

func (s *queueing) tag() string {
	tags := s.rules.Tags()
	return tags[s.rng.IntN(len(tags))]
}

func (s *queueing) try(ctx context.Context, l *multilock.Locker, first bool) {
	lease, err := l.TryAcquire(ctx, bson.M{"_id": s.id}, s.tag())
	if err != nil {
		return
	}
	if first && s.first == nil {
		s.first = lease
	}
	s.leases = append(s.leases, lease)
}

// wait adds one waiter, with one of several filters.
func (s *queueing) wait(ctx context.Context, l *multilock.Locker) {
	filter := []bson.M{{"_id": s.id}, {"_id": s.id, "name": s.id}, {"name": s.id}}[s.rng.IntN(3)]
	tag := s.tag()
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	s.waiting[tag]++
	s.cancels = append(s.cancels, cancel)
	s.mu.Unlock()
	s.all.Go(func() {
		defer cancel()
		lease, err := l.Acquire(ctx, filter, tag)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.waiting[tag]--
		if err == nil {
			s.leases = append(s.leases, lease)
		}
	})
}

func (s *queueing) waiters() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, some := range s.waiting {
		n += some
	}
	return n
}

func (s *queueing) over() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := len(s.leases)
	for _, some := range s.waiting {
		n += some
	}
	return n == 0
}

// leaves lets a holder or, less often, a waiter leave.
func (s *queueing) leaves(ctx context.Context) {
	s.mu.Lock()
	if len(s.leases) == 0 || s.rng.IntN(6) == 0 && len(s.cancels) > 0 {
		defer s.mu.Unlock()
		if len(s.cancels) > 0 {
			s.cancels[0]()
			s.cancels = s.cancels[1:]
		}
		return
	}
	i := s.rng.IntN(len(s.leases))
	lease := s.leases[i]
	s.leases = slices.Delete(s.leases, i, i+1)
	s.mu.Unlock()
	_ = lease.Release(ctx) // it may have ended
}

// bringBack executes the first holder's acquire again after its release. At the
// end it removes the resulting entry by hand.
func (s *queueing) bringBack(ctx context.Context, late *faultnet.Fault) error {
	select {
	case <-late.Fired():
	default:
		return nil
	}
	s.mu.Lock()
	s.leases = slices.DeleteFunc(s.leases, func(l *doclock.Lease) bool { return l == s.first })
	s.mu.Unlock()
	if s.first != nil {
		_ = s.first.Release(ctx)
	}
	if err := s.settle(ctx); err != nil {
		return err
	}
	if err := late.Let(); err != nil {
		return err
	}
	entries, err := s.entries(ctx)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if s.first != nil && s.first.ID() == uuid.UUID(e.ID.Data) {
			s.tally.Fired(idBroughtBack, 1)
			if err := s.quiet(ctx); err != nil {
				return err
			}
			if _, err := s.other.UpdateOne(ctx, bson.M{"_id": s.id}, bson.M{"$pull": bson.M{"lock.tags." + e.tag: bson.M{"id": e.ID}}}); err != nil {
				return err
			}
		}
	}
	return s.settle(ctx)
}
