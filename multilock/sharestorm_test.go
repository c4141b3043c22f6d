package multilock_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/doclock/doclock"
	"github.com/doclock/doclock/multilock"
	"github.com/doclock/doclock/relations"
	"go.mongodb.org/mongo-driver/v2/bson"
	"go.mongodb.org/mongo-driver/v2/mongo/options"
)

// Thirty goroutines in two processes read and write, try, wait, give up, keep
// alive and update, and the readers share an entry. No holder is let in beside a
// writer, no write is lost, no loss is reported before the end of the validity,
// and no entry stays behind. Each lease that a caller got has one end in the events.
func TestAStormOfSharers(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]relations.Rules{"write preferring": relations.WritePreferring(), "fair": relations.Fair()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &storm{place: newPlace(t), in: map[string]int{}, sure: map[string]int64{}, maybe: map[string]int64{}}
			var lockers []*multilock.Locker
			for range 2 {
				lockers = append(lockers, s.locker(s.via(options.Client()), rules, s.ledger().option(), doclock.ShareInProcess("read"), doclock.TTL(3*time.Second)))
			}
			over, cancel := context.WithTimeout(t.Context(), 1200*time.Millisecond)
			defer cancel()
			var all sync.WaitGroup
			for i := range 30 {
				all.Go(func() {
					for over.Err() == nil {
						s.turn(over, lockers[i%2])
					}
				})
			}
			all.Wait()
			for _, l := range lockers {
				s.rest(l) // it also removes the entries of acquires that gave up
				if n := l.WaitQueues(); n != 0 {
					t.Errorf("%d wait queues are left", n)
				}
			}
			s.judge()
		})
	}
}

// storm is the record outside of the document. It is judged only if no lease
// ended early because its holder was too slow.
type storm struct {
	*place

	mu          sync.Mutex
	in          map[string]int   // how many are in, by tag
	sure, maybe map[string]int64 // writes that were applied, or may have been, by tag
	written     int64            // the highest total that was surely written
	faults      []string
	lost        int
}

// turn acquires in one of several ways, works, and releases the lock.
func (s *storm) turn(over context.Context, l *multilock.Locker) {
	tag, wait := "read", time.Second
	if rand.N(4) == 0 {
		tag = "write"
	}
	if rand.N(3) == 0 {
		wait = rand.N(20 * time.Millisecond) // and then gives up
	}
	ctx, cancel := context.WithTimeout(over, wait)
	defer cancel()
	var doc struct{ Total int64 }
	var opts []doclock.AcquireOption
	wants := tag == "write" || rand.N(4) == 0
	if wants {
		opts = append(opts, doclock.Into(&doc))
	}
	work := func(_ context.Context, lease *doclock.Lease) error {
		s.work(lease, wants, doc.Total)
		return nil
	}
	var lease *doclock.Lease
	var err error
	switch rand.N(4) {
	case 0:
		err = l.Do(ctx, flowers, tag, work, opts...)
	case 1:
		lease, err = l.TryAcquire(ctx, flowers, tag, opts...)
	default:
		lease, err = l.Acquire(ctx, flowers, tag, opts...)
	}
	if lease != nil {
		_ = work(ctx, lease)
		left, begun := lease.Remaining(), time.Now()
		err = lease.Release(context.Background())
		if errors.Is(err, doclock.ErrLost) && time.Since(begun) < left {
			s.Errorf("a loss was reported with %v left: %v", left-time.Since(begun), err)
		}
	}
	switch {
	case err == nil, errors.Is(err, doclock.ErrConflict), errors.Is(err, context.DeadlineExceeded):
	case errors.Is(err, doclock.ErrLost), errors.Is(err, doclock.ErrOutcomeUnknown):
		s.Logf("lost: %v", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.lost++
	default:
		s.Errorf("a turn ended with %v", err)
	}
}

// work is done under the lock. A writer adds one to the total that it has read,
// so it would overwrite another writer's update.
func (s *storm) work(lease *doclock.Lease, read bool, total int64) {
	ctx, end := context.WithCancel(context.Background())
	defer end()
	s.enter(lease.Tag(), read, total)
	for range rand.N(3) {
		ctx = lease.KeepAlive(ctx)
	}
	time.Sleep(rand.N(2 * time.Millisecond))
	update := bson.M{"$inc": bson.M{"reads": 1}}
	if lease.Tag() == "write" {
		update = bson.M{"$set": bson.M{"total": total + 1}}
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Microsecond+rand.N(20*time.Millisecond))
	defer cancel()
	switch rand.N(4) {
	case 0:
		s.wrote(lease.Tag(), total, lease.Update(ctx, update))
		s.leave(lease)
	case 1:
		s.wrote(lease.Tag(), total, lease.Update(short, update))
		s.leave(lease)
	case 2:
		s.leave(lease)
		s.wrote(lease.Tag(), total, lease.UpdateAndRelease(ctx, update))
	default:
		s.leave(lease)
		s.wrote(lease.Tag(), total, lease.UpdateAndRelease(short, update))
	}
}

func (s *storm) enter(tag string, read bool, total int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in[tag]++
	if s.in["write"] > 1 || s.in["write"] == 1 && s.in["read"] > 0 {
		s.fault("a writer is not alone: %v", s.in)
	}
	if read && total < s.written {
		s.fault("the total is %d, and %d was written before", total, s.written)
	}
}

// leave is called before a command that lets others in is sent.
func (s *storm) leave(lease *doclock.Lease) {
	err := lease.Err()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.in[lease.Tag()]--
	if err != nil {
		s.lost++
	}
}

func (s *storm) wrote(tag string, total int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		s.maybe[tag]++
		return
	}
	s.sure[tag]++
	if tag == "write" {
		s.written = max(s.written, total+1)
	}
}

// fault is reported at the end. The storm is locked, or over.
func (s *storm) fault(format string, args ...any) {
	s.faults = append(s.faults, fmt.Sprintf(format, args...))
}

func (s *storm) judge() {
	s.Helper()
	s.wantEntries()
	var doc struct{ Total, Reads int64 }
	if err := s.coll.FindOne(context.Background(), flowers).Decode(&doc); err != nil {
		s.Fatal(err)
	}
	for tag, n := range map[string]int64{"write": doc.Total - 1, "read": doc.Reads} {
		if n < s.sure[tag] || n > s.sure[tag]+s.maybe[tag] {
			s.fault("%d %s updates are in the document; %d were applied, and %d may have been", n, tag, s.sure[tag], s.maybe[tag])
		}
	}
	s.Logf("applied %v, may have been %v, %d leases lost", s.sure, s.maybe, s.lost)
	if s.lost > 0 {
		return
	}
	for _, fault := range s.faults {
		s.Error(fault)
	}
}
